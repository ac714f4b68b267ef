"""Health checks against real servers on loopback: good ones, wrong ones, and those that mean harm."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from hypothesis import given
from hypothesis import strategies as st

from agent.config import HealthProbe, Workload
from agent.linux.clock import SystemClock
from agent.linux.dialogue import Answer
from agent.linux.loop import EpollLoop
from agent.model import Sighting
from agent.outside._grpc import Check
from agent.outside._http import Get
from agent.outside._tls import Tls
from agent.outside.checking import Checking, Work
from tests.telemetry.certificates import Authority

Talk = Callable[[socket.socket], None]


@contextmanager
def server(talk: Talk, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve each connection by `talk` on a thread; gives the port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    sock, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=one, args=(sock,), daemon=True).start()

        def one(sock: socket.socket) -> None:
            with suppress(OSError), sock:
                if context is None:
                    talk(sock)
                else:
                    with context.wrap_socket(sock, server_side=True) as wrapped:
                        talk(wrapped)

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def says(*parts: bytes, pause_s: float = 0.0) -> Talk:
    """Give a server that reads a request, then sends `parts`, and closes."""

    def talk(sock: socket.socket) -> None:
        sock.recv(65536)
        for part in parts:
            sock.sendall(part)
            time.sleep(pause_s)

    return talk


def hangs(sock: socket.socket) -> None:
    """Never answer."""
    time.sleep(30)
    sock.close()


def page(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    """Give an HTTP response."""
    return b"\r\n".join((b"HTTP/1.1 " + status, *headers, b"", body))


def check(probes: Sequence[HealthProbe], samples: int = 1, limit_s: float = 10) -> tuple[list[Sighting], list[str]]:
    """Check until that many samples have come, or nothing more can; gives them, and what was said."""
    found: list[Sighting] = []
    said: list[str] = []
    errors: list[Exception] = []
    loop = EpollLoop(lambda _name, error: errors.append(error))

    def shown(sighting: Sighting) -> None:
        found.append(sighting)
        if len(found) >= samples:
            loop.stop()

    def tell(text: str) -> None:
        said.append(text)

    workloads = [Workload(f"w{n}", command=("x",), probe=probe) for n, probe in enumerate(probes)]
    checking = Checking(workloads, loop, SystemClock(), shown, tell)
    checking.start()
    loop.once(limit_s, loop.stop, "limit")
    loop.run()
    checking.close()
    loop.close()
    assert not errors
    return found, said


def http(port: int, path: str = "/", timeout_s: float = 1.0, counter: str | None = None) -> HealthProbe:
    """Give a probe of a page."""
    return HealthProbe(http=f"http://127.0.0.1:{port}{path}", period_s=0.05, timeout_s=timeout_s, counter=counter)


@pytest.mark.parametrize(
    ("talk", "why"),
    [
        (says(page(b"", b"Content-Length: 0")), ""),
        (says(page(b"x" * 300_000)), ""),
        (says(page(b"", b"Content-Length: 5"), b"12345"), ""),
        (says(page(b"", b"Content-Length: 5"), b"123"), ""),
        (says(page(b"12", b"content-length: 3", status=b"500 Oops"), b"3"), "answers 500 Oops"),
        (says(page(b"", status=b"204 No Content")), ""),
        (says(page(b"{}", status=b"503 Service Unavailable")), "answers 503 Service Unavailable"),
        (says(page(b"", b"Location: /x", status=b"302 Found")), "answers 302, a redirect: name the URL that it leads to"),
        (says(b"SSH-2.0-OpenSSH_9.2\r\n"), "does not speak HTTP"),
        (says(b"\x16\x03\x01" * 30_000), "does not speak HTTP"),
        (says(b""), "closed the connection after 0 bytes, before its answer was whole"),
        (says(b"HTTP/1.1 200 OK\r\nServer: x"), "its answer has no end"),
        (says(b"HTTP/1.1 200 OK\r\n", *[b"X: y\r\n" * 1000] * 20), "its answer has no end"),
        (says(*[bytes([byte]) for byte in page(b"")], pause_s=0.1), "no whole answer (9 bytes) within 1 s"),
        (hangs, "no answer within 1 s"),
    ],
)
def test_what_a_server_may_do(talk: Talk, why: str) -> None:
    """Pins the answer, or the one reason, for every kind of server: also one that sends a byte now and then, or has no end."""
    with server(talk) as port:
        found, said = check([http(port)])
    assert said == []
    assert [(one.kind, one.subject, one.data["ok"]) for one in found] == [("workload.check", "w0", not why)]
    shown = str(found[0].data["why"])
    assert shown == why or (why.startswith("no whole answer") and shown.startswith("no whole answer"))


def test_nobody_listens() -> None:
    """Pins a refused connection, over both addresses of a name, and a port that drops everything."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    found, _ = check([http(port)])
    assert found[0].data["why"] == "cannot connect: Connection refused"
    found, _ = check([HealthProbe(tcp=f"localhost:{port}", period_s=0.05, timeout_s=1)])
    assert found[0].data["why"] == "cannot connect: Connection refused"


def test_a_backlog_that_is_full() -> None:
    """Pins the time-out of a connection that is never taken."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        address = listening.getsockname()
        with socket.create_connection(address), socket.socket() as second:
            second.setblocking(False)
            second.connect_ex(address)
            found, _ = check([HealthProbe(tcp=f"127.0.0.1:{address[1]}", period_s=0.05, timeout_s=0.3)])
    assert found[0].data["why"] == "no connection within 0.3 s"


def test_a_connection_is_enough_for_tcp() -> None:
    """Pins `tcp`, by address and by name, IPv6 included."""
    with server(hangs) as port:
        found, said = check([HealthProbe(tcp=f"{host}:{port}", period_s=0.05) for host in ("127.0.0.1", "localhost")], 3)
    assert all(one.data["ok"] for one in found)
    assert said in ([], ["health check of w1: localhost has no address (yet)"])


def test_a_name_that_does_not_resolve_is_no_answer() -> None:
    """Pins that DNS is not the workload's fault: no sample, said once."""
    found, said = check([HealthProbe(tcp="no-such-host.invalid:80", period_s=0.05)], limit_s=0.5)
    assert found == []
    assert said == ["health check of w0: no-such-host.invalid has no address (yet)"]


def test_none_delays_another() -> None:
    """Pins that twenty servers that hang leave the answers of the others as quick as ever, in a period of 50 ms."""
    with server(hangs) as bad, server(says(page(b""))) as good:
        found, _ = check([*(http(bad, timeout_s=5) for _ in range(20)), http(good)], samples=10, limit_s=8)
    assert {one.subject for one in found} == {"w20"}
    assert all(one.data["ok"] for one in found)
    assert max(float(str(one.data["ms"])) for one in found) < 1000


CHUNKED = b"".join(
    f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in (b'done{model="a"} 1', b'2\ndone{model="b"} 3\n', b"")
)


@pytest.mark.parametrize(
    ("talk", "count"),
    [
        (says(page(b"# HELP done x\n# TYPE done counter\ndone 12\ndone_total 7\n")), 12.0),
        (says(page(b'done{model="a"} 1e3\ndone{model="b"}\t4 1700000000\n', b"Content-Length: 52")), 1004.0),
        (says(page(CHUNKED, b"Transfer-Encoding: chunked")), 15.0),
        (says(page(b"other 1\n")), "its page shows no number for done"),
        (says(page(b"done 1e\n")), "its page shows no number for done"),
        (says(page(b"# x\n" * 400_000)), "answers more than 1 MiB"),
        (says(page(b"", status=b"404 Not Found")), "answers 404 Not Found"),
    ],
)
def test_a_page_of_counters(talk: Talk, count: float | str) -> None:
    """Pins the sum over labels, whole and in chunks, and pages that do not say."""
    with server(talk) as port:
        found, _ = check([http(port, "/metrics", counter="done")])
    assert found[0].data["why"] == (count if isinstance(count, str) else "")


def test_work_done_on_a_page_is_a_beat() -> None:
    """Pins Triton's way: each change of the count is a beat beside the check, and an idle server is none."""
    counts = iter([5, 5, 6, 6, 8, *[8] * 1000])

    def talk(sock: socket.socket) -> None:
        sock.recv(65536)
        sock.sendall(page(f'nv_inference_request_success{{model="m",version="1"}} {next(counts)}\n'.encode()))

    with server(talk) as port:
        found, _ = check([http(port, "/metrics", counter="nv_inference_request_success")], samples=9)
    kinds = [one.kind for one in found]
    assert kinds == [
        f"workload.{what}" for what in ("check", "check", "check", "beats", "check", "check", "beats", "check", "check")
    ]
    first, second = (one.data for one in found if one.kind == "workload.beats")
    assert first["intervals_ms"] == []
    apart_ms = (int(str(second["last_ns"])) - int(str(first["last_ns"]))) / 1e6
    assert second["intervals_ms"] == [round(apart_ms, 1)]


def test_a_file_that_counts(tmp_path: Path) -> None:
    """Pins that a count that goes on is a beat, that standing still is none, and an absent file is said once."""
    path = tmp_path / "frames"
    probe = HealthProbe(file=path, period_s=0.05)
    found, said = check([probe], limit_s=0.4)
    assert (found, said) == ([], [f"health check of w0: {path}: No such file or directory"])

    stop = threading.Event()

    def work() -> None:
        for number in range(10_000):
            path.write_text(f"{number}\n")
            if stop.wait(0.02):
                return

    worker = threading.Thread(target=work)
    worker.start()
    found, said = check([probe], samples=4)
    stop.set()
    worker.join()
    assert {one.kind for one in found} == {"workload.beats"}
    assert check([probe], limit_s=0.3) == ([], [])
    path.unlink()
    path.mkdir()
    assert check([probe], limit_s=0.2)[1] == [f"health check of w0: {path}: a directory, not a regular file"]


def test_work_is_told_by_change() -> None:
    """Pins the pure part: the first value proves nothing, a reset counter is a change."""
    work = Work()
    assert work.beat(7, 100) is None
    assert work.beat(7, 200) is None
    assert work.beat(0, 5_000_000) == {
        "last_ns": 5_000_000,
        "intervals_ms": [],
        "phase": "run",
        "watchdog_us": None,
        "extend_until_ns": None,
    }
    assert (work.beat(1, 8_000_000) or {})["intervals_ms"] == [3.0]


def test_https(tmp_path: Path) -> None:
    """Pins TLS with a certificate of the server's own, and each way in which it fails by name."""
    authority = Authority(tmp_path / "ca")
    certificate, key = authority.issue("server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    with server(says(page(b"done 3\n")), context) as port:
        url = f"https://127.0.0.1:{port}/"
        found, _ = check([HealthProbe(http=url, period_s=0.05)])
        assert found[0].data["ok"], found[0].data
        found, _ = check([HealthProbe(http=url, counter="done", period_s=0.05)])
        assert found[0].data["ok"], found[0].data
    with server(says(page(b""))) as port:
        found, _ = check([HealthProbe(http=f"https://127.0.0.1:{port}/", period_s=0.05)])
        assert found[0].data["why"] in {"TLS: wrong version number", "TLS: record layer failure"}
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(str(authority.ca))
    with server(says(page(b"")), context) as port:
        found, _ = check([HealthProbe(http=f"https://127.0.0.1:{port}/", period_s=0.05)])
        assert "TLS: " in str(found[0].data["why"]) or "closed the connection" in str(found[0].data["why"])


@contextmanager
def grpc_server(status: int | None) -> Iterator[int]:
    """Run the real thing, grpcio with its own health service; None: without one."""
    running = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
    if status is not None:
        servicer = health.HealthServicer()
        servicer.set("", status)
        health_pb2_grpc.add_HealthServicer_to_server(servicer, running)
    port = running.add_insecure_port("127.0.0.1:0")
    running.start()
    yield port
    running.stop(None).wait()


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (health_pb2.HealthCheckResponse.SERVING, ""),
        (health_pb2.HealthCheckResponse.NOT_SERVING, "is NOT_SERVING"),
        (health_pb2.HealthCheckResponse.UNKNOWN, "is UNKNOWN"),
        (None, "has no service grpc.health.v1.Health"),
    ],
)
def test_grpc(status: int | None, why: str) -> None:
    """Pins the health protocol against gRPC's own server."""
    with grpc_server(status) as port:
        found, said = check([HealthProbe(grpc=f"127.0.0.1:{port}", period_s=0.05, timeout_s=5)], samples=2)
    assert said == []
    assert [one.data["why"] for one in found] == [why, why]


@pytest.mark.parametrize(
    ("talk", "why"),
    [
        (says(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 3), "does not speak HTTP/2 but HTTP/1"),
        (says(b"SSH-2.0-OpenSSH_9.2\r\n" * 9), "does not speak HTTP/2: |closed the connection"),
        (says(b""), "closed the connection without an answer"),
        (hangs, "no answer within 1 s"),
    ],
)
def test_grpc_of_others(talk: Talk, why: str) -> None:
    """Pins what is said of a port behind which there is no gRPC."""
    with server(talk) as port:
        found, _ = check([HealthProbe(grpc=f"127.0.0.1:{port}", period_s=0.05, timeout_s=1)])
    assert str(found[0].data["why"]).startswith(tuple(why.split("|")))


@given(st.lists(st.binary(max_size=400), max_size=6), st.sampled_from([None, "done"]))
def test_any_bytes_are_an_answer_or_none(parts: list[bytes], counter: str | None) -> None:
    """Pins that no conversation raises, whatever comes in whatever pieces."""
    for talk in (Get("h", "/", counter), Check("h:1"), Tls(Get("h", "/"), "h")):
        talk.begin()
        for part in (*(part for part in parts if part), b""):
            answer = talk.take(part)
            assert answer is None or isinstance(answer, Answer)
            if answer is not None:
                break
            talk.more()


@given(st.binary(max_size=300), st.lists(st.integers(min_value=1, max_value=300), max_size=8), st.booleans())
def test_a_page_in_pieces_is_the_same_page(body: bytes, cuts: list[int], chunked: bool) -> None:  # noqa: FBT001
    """Pins that the answer does not depend on how the bytes are cut, plain and in chunks."""
    text = b"done 42\n" + body
    framed = b"%x\r\n%s\r\n0\r\n\r\n" % (len(text), text) if chunked else text
    whole = page(framed, b"Transfer-Encoding: chunked" if chunked else b"X: y")
    answers = []
    for places in ([], sorted(set(cuts))):
        get, answer, start = Get("h", "/", "done"), None, 0
        for end in (*places, len(whole)):
            if whole[start:end] and answer is None:
                answer = get.take(whole[start:end])
            start = max(start, end)
        answers.append(answer or get.take(b""))
    assert answers[0] == answers[1]
