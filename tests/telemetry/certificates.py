"""A certificate authority in a folder, by the openssl program."""

from __future__ import annotations

import subprocess
from pathlib import Path

_CONFIG = """
[ca]
default_ca = here
[here]
dir = {folder}
database = $dir/index
serial = $dir/serial
new_certs_dir = $dir
certificate = $dir/ca.pem
private_key = $dir/ca.key
default_md = sha256
policy = any
x509_extensions = usr
unique_subject = no
[any]
commonName = supplied
[usr]
subjectAltName = DNS:localhost,IP:127.0.0.1
"""
VALID = ("20240101000000Z", "20991231235959Z")
EXPIRED = ("20200101000000Z", "20210101000000Z")
NOT_YET = ("20980101000000Z", "20991231235959Z")


class Authority:
    """Makes certificates for `localhost`, valid from and until any time."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self.ca = folder / "ca.pem"
        (folder / "index").touch()
        (folder / "serial").write_text("01\n")
        (folder / "ca.conf").write_text(_CONFIG.format(folder=folder))
        self._key("ca")
        self._openssl("req", "-x509", "-new", "-key", "ca.key", "-subj", "/CN=test", "-days", "36500", "-out", "ca.pem")

    def issue(self, name: str, period: tuple[str, str] = VALID) -> tuple[Path, Path]:
        """Give certificate and key of a new `name`."""
        self._key(name)
        self._openssl("req", "-new", "-key", f"{name}.key", "-subj", f"/CN={name}", "-out", f"{name}.csr")
        dates = ("-startdate", period[0], "-enddate", period[1])
        self._openssl("ca", "-batch", "-notext", "-config", "ca.conf", *dates, "-in", f"{name}.csr", "-out", f"{name}.pem")
        return self._folder / f"{name}.pem", self._folder / f"{name}.key"

    def _key(self, name: str) -> None:
        self._openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", f"{name}.key")

    def _openssl(self, *arguments: str) -> None:
        done = subprocess.run(["openssl", *arguments], cwd=self._folder, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
