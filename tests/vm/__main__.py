"""Boot Debian kernels in QEMU by virtme-ng; in each, run the live tests, and find the planted races of `tests/vm/modules`.

    python -m tests.vm                       every kernel of SERIES
    python -m tests.vm --rotate N            number N modulo their count (CI passes the time of the commit)
    python -m tests.vm --kernel 6.1-rt       that one
    python -m tests.vm --quick               some 6 minutes instead of 20: several faults in a scan, fewer live tests
    python -m tests.vm --steps faults,twins  only these (tests/vm/guest/steps.py)

Kernels and headers come from Debian (`apt-get download`), are unpacked under `.lab/kernels`, and never installed. The guest's
root is this machine's, read-only, over 9p. The tables stay in `.lab/vm/*.json`. Exit code 0 if every kernel passed, 77 if a
virtual machine cannot run here: no packages, or QEMU boots no kernel.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.vm import modules, resets
from tests.vm.guest.steps import DEFAULT
from tests.vm.kernels import ROOT, SERIES, Kernel, Unavailable, kernel

RESULTS = ROOT / ".lab" / "vm"
CANNOT_RUN = 77  # as automake has it
# How long a guest may take: to boot (20 to 40 s are usual), until it begins no further step, in all.
BOOT_S = 180
BEGIN_S, GUEST_S = 2400, 3000
QUICK_BEGIN_S, QUICK_GUEST_S = 600, 900
QUICK = ("tests/kernel/test_loading.py", "tests/kernel/test_timers.py")
MOUNTS = "mount -t bpf bpf /sys/fs/bpf; mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing"
# The guest's root asks the host for every file name anew, 7 ms each time under emulation: `agentctl --help` takes 19 s. A
# second share of the same files, which remembers, makes that 3 s. It also has what lies under /tmp: the guest's is empty.
SHARE = (
    "-fsdev local,id=fast,path=/,security_model=none,readonly=on,multidevs=remap "
    "-device virtio-9p-pci,fsdev=fast,mount_tag=fast"
)
FAST = (
    "mkdir -p /run/fast {root} && mount -t 9p -o trans=virtio,version=9p2000.L,cache=loose,msize=512000,ro fast /run/fast && "
    "mount --bind /run/fast/usr /usr && mount --bind /run/fast{root} {root}; export PYTHONPYCACHEPREFIX=/tmp/pycache"
)
# What a kernel package and its headers have under /lib/modules: BCC looks for the headers there, and modprobe for modules. The
# machine whose root this is may have no such folder.
MODULES = (
    "{{ mkdir -p /lib/modules 2>/dev/null || {{ mkdir /run/lib /run/work && mount -t overlay "
    "-o lowerdir=/usr/lib,upperdir=/run/lib,workdir=/run/work overlay /usr/lib && mkdir /lib/modules; }}; }} && "
    "mount -t tmpfs modules /lib/modules && mkdir /lib/modules/{abi} && "
    "cd /lib/modules/{abi} && ln -s {build} build && ln -s {source} source && ln -s {modules}/* ."
)
OUT = Path("/mnt")  # in the guest: what the host keeps
BOOTED, SCRIPT = "booted", "run.sh"
RESETS = "resets"  # a step with a guest of its own, which boots again and again


def boot(chosen: Kernel, script: str, folder: Path, limit_s: float) -> Path:
    """Run a shell script in a guest, where `folder` is OUT and writable; give the file with what it said.

    Raises Unavailable if no guest comes up.
    """
    vng = Path(sys.executable).with_name("vng")
    options = ["--disable-kvm", "--force-9p", "--run", str(chosen.image), "--cpus", "2", "--memory", "1G", "--cwd", "/"]
    console, booted = folder / "console.log", folder / BOOTED
    booted.unlink(missing_ok=True)
    # By a file: virtme-ng puts the command into the kernel's command line, of which Debian's 6.1 panics at 2048 characters.
    (folder / SCRIPT).write_text(f"touch {OUT / BOOTED}\n{script}\n")
    # --verbose: without a terminal, virtme-ng passes the guest's output on only with its console.
    with (
        console.open("wb") as output,
        subprocess.Popen(
            [str(vng), "--verbose", *options, f"--rwdir={OUT}={folder}", f"--qemu-opts={SHARE}", "--", f"sh {OUT / SCRIPT}"],
            env={**os.environ, "PATH": f"{vng.parent}:{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as machine,
    ):
        try:
            ended = _ends(machine, BOOT_S, booted) or (booted.exists() and _ends(machine, limit_s))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(machine.pid, signal.SIGKILL)  # QEMU is a grandchild
    if not booted.exists():
        why = "ended before it was up" if ended else f"was not up after {BOOT_S} s"
        raise Unavailable(f"the guest {why}:\n{tail(console, 20)}")
    if not ended:
        print(f"given up after {limit_s} s", flush=True)
    return console


def _ends(machine: subprocess.Popen[bytes], seconds: float, sign: Path | None = None) -> bool:
    """Wait until the machine ends, or for so long, or until `sign` is there; tells whether it has ended."""
    deadline = time.monotonic() + seconds
    while machine.poll() is None and time.monotonic() < deadline and not (sign and sign.exists()):
        time.sleep(0.5)
    return machine.poll() is not None


def tail(console: Path, count: int) -> str:
    """Give the last lines of a file."""
    return "\n".join(console.read_text(errors="replace").splitlines()[-count:])


def prelude(chosen: Kernel) -> str:
    """Give the shell commands that make files quick, and put a kernel's where BCC and modprobe look."""
    places = MODULES.format(abi=chosen.abi, build=chosen.build, source=chosen.source, modules=chosen.modules)
    return f"{FAST.format(root=ROOT)}\n{places}"


def guest(chosen: Kernel, steps: str, tests: list[str], *, quick: bool) -> list[dict[str, Any]]:
    """Run the steps in a guest; gives its table, in which a step that the guest did not live to end is a failed row."""
    folder = RESULTS / chosen.abi
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / "guest.json"
    out.unlink(missing_ok=True)
    begin_s, limit_s = (QUICK_BEGIN_S, QUICK_GUEST_S) if quick else (BEGIN_S, GUEST_S)
    files = ["--modules", modules.built(chosen), "--unknown", modules.unknown(chosen), "--out", OUT / out.name]
    options = ["--steps", steps, "--begin", begin_s, *(["--quick"] if quick else [])]
    run = shlex.join(map(str, [ROOT / ".venv/bin/python", "-m", "tests.vm.guest", *files, *options, *tests]))
    script = f"{MOUNTS}\n{prelude(chosen)}\ncd {ROOT} && GATEWARDEN_GUEST=1 {run}"
    console = boot(chosen, script, folder, limit_s)
    table: list[dict[str, Any]] = json.loads(out.read_text()) if out.exists() else []
    missing = [step for step in steps.split(",") if step not in {done["step"] for done in table}]
    if missing or not all(row["passed"] for done in table for row in done["rows"]):
        print(tail(console, 200), flush=True)
    gone = {"what": "", "expected": "the guest lives", "found": f"it ended: {console}", "passed": False}
    return table + [{"step": step, "seconds": 0.0, "rows": [gone]} for step in missing]


def show(package: str, table: list[dict[str, Any]], seconds: float) -> bool:
    """Print one kernel's table; gives whether all of it passed."""
    passed = all(row["passed"] for done in table for row in done["rows"])
    print(f"\n{'passed' if passed else 'FAILED'}  {package}  {seconds:.0f} s")
    for done in table:
        if done.get("skipped"):
            print(f"  {done['step']:<10}SKIPPED {done['skipped']}")
        for row in done["rows"]:
            verdict = "ok" if row["passed"] else "FAILED"
            print(f"  {done['step']:<10}{verdict:<7} {row['what']:<26} {row['expected']:<24} {row['found']}")
    sys.stdout.flush()
    return passed


def main() -> int:
    """Run what the arguments ask for, a table for each kernel at the end."""
    parser = argparse.ArgumentParser(prog="python -m tests.vm", description="Live tests and planted races on Debian kernels.")
    parser.add_argument("--rotate", type=int, metavar="N", help="only kernel number N modulo the count")
    parser.add_argument("--kernel", default="", choices=["", *SERIES], help="only this series")
    parser.add_argument("--quick", action="store_true", help="several faults in a scan, one proof, fewer live tests")
    parser.add_argument(
        "--steps", help=f"only these steps, comma-separated (all: {','.join(DEFAULT)},{RESETS}; quick: no {RESETS})"
    )
    parser.add_argument("--pytest", default="", help="arguments for the step `probes` instead of tests/kernel, in one string")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no guest outlives us
    series = [arguments.kernel] if arguments.kernel else list(SERIES)
    if arguments.rotate is not None:
        series = [series[arguments.rotate % len(series)]]
    tests = shlex.split(arguments.pytest) or (list(QUICK) if arguments.quick else ["tests/kernel"])
    steps = arguments.steps or ",".join(DEFAULT if arguments.quick else (*DEFAULT, RESETS))
    try:
        return 0 if run(series, steps, tests, quick=arguments.quick) else 1
    except Unavailable as why:
        print(f"SKIPPED: no virtual machine can run here: {why}", flush=True)
        return CANNOT_RUN


def run(series: list[str], steps: str, tests: list[str], *, quick: bool) -> bool:
    """Run the steps on each kernel, show and keep the tables; tells whether all passed. Raises Unavailable."""
    if len(os.sched_getaffinity(0)) < 2:
        raise Unavailable("a race takes two CPUs")
    passed = True
    for name in series:
        chosen = kernel(name)
        began = time.monotonic()
        print(f"== {chosen.package}", flush=True)
        inside = [step for step in steps.split(",") if step != RESETS]
        table = guest(chosen, ",".join(inside), tests, quick=quick) if inside else []
        if RESETS in steps.split(","):
            table.append(resets.step(chosen, RESULTS / chosen.abi / RESETS, prelude(chosen), SHARE))
        seconds = time.monotonic() - began
        passed &= show(chosen.package, table, seconds)
        result = {"package": chosen.package, "seconds": round(seconds), "steps": table}
        (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1))
    return passed


if __name__ == "__main__":
    sys.exit(main())
