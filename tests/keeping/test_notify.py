"""The sd_notify parser: every key, every wrong value, every byte string."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.keeping.notify import DATA_LIMIT, FAULTS, LIMIT, TEXT_LIMIT, Said, parse

KEYS = (
    *("READY", "RELOADING", "STOPPING", "WATCHDOG", "WATCHDOG_USEC", "EXTEND_TIMEOUT_USEC", "STATUS", "ERRNO", "MAINPID"),
    *(
        "FDSTORE",
        "FDSTOREREMOVE",
        "FDNAME",
        "X_GATEWARDEN_EVENT",
        "X_GATEWARDEN_DATA",
        "X_GATEWARDEN_PROFILE",
        "X_GATEWARDEN_WORK",
    ),
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("READY=1", Said(ready=True)),
        ("READY=1\nSTATUS=loading model\n", Said(ready=True, status="loading model")),
        ("RELOADING=1\nMONOTONIC_USEC=77", Said(reloading=True)),
        ("STOPPING=1", Said(stopping=True)),
        ("WATCHDOG=1", Said(beat=True)),
        ("WATCHDOG=trigger", Said(trigger=True)),
        ("WATCHDOG_USEC=20000000", Said(watchdog_us=20_000_000)),
        ("WATCHDOG_USEC=0", Said(watchdog_us=0)),
        ("EXTEND_TIMEOUT_USEC=5000000", Said(extend_us=5_000_000)),
        ("ERRNO=2", Said(errno=2)),
        ("MAINPID=4711", Said(main_pid=4711)),
        ("FDSTORE=1\nFDNAME=frames", Said(store=True, fd_name="frames")),
        ("FDSTORE=1\nFDNAME=", Said(store=True, fd_name="stored")),
        ("FDSTOREREMOVE=1\nFDNAME=frames\nFDPOLL=0", Said(remove=True, fd_name="frames")),
        ("BARRIER=1", Said()),
        ("BUSERROR=x\nNOTIFYACCESS=all\nX_OTHER=1\nLISTEN=", Said()),
        ("X_GATEWARDEN_WORK=12", Said(work=12)),
        ("X_GATEWARDEN_PROFILE=low", Said(profile="low")),
        ("X_GATEWARDEN_PROFILE=", Said(profile="")),
        ("X_GATEWARDEN_EVENT=video.timeout", Said(event="video.timeout")),
        (
            'X_GATEWARDEN_EVENT=work.camera_lost\nX_GATEWARDEN_DATA={"id": [1]}',
            Said(event="work.camera_lost", event_data={"id": [1]}),
        ),
        ("STATUS=a\x07b\x1b[31m", Said(status="a b [31m")),
        ("", Said()),
        ("\n\n", Said()),
        ("READY=1\0", Said(faults=("READY: want 1",))),
    ],
)
def test_what_is_said(text: str, said: Said) -> None:
    """Pins each key of the protocol, the keys of ours, and that unknown ones mean nothing."""
    assert parse(text.encode()) == said


@pytest.mark.parametrize(
    "line",
    [
        *("READY=0", "READY=", "READY=yes", "WATCHDOG=2", "WATCHDOG_USEC=-1", "WATCHDOG_USEC=", "WATCHDOG_USEC=1e6"),
        *("WATCHDOG_USEC=18446744073709551615", "WATCHDOG_USEC=٣", "WATCHDOG_USEC=1_0", "EXTEND_TIMEOUT_USEC=0", "ERRNO=-5"),
        *("MAINPID=1", "MAINPID=0", "MAINPID=99999999", "MAINPID=x", "FDNAME=a:b", "FDNAME=a b", "FDNAME=" + "n" * 256),
        *(
            "X_GATEWARDEN_EVENT=proc.exit",
            "X_GATEWARDEN_EVENT=work.",
            "X_GATEWARDEN_EVENT=work.A",
            "X_GATEWARDEN_EVENT=video.x",
        ),
        *("X_GATEWARDEN_DATA=[]", "X_GATEWARDEN_DATA={", 'X_GATEWARDEN_DATA={"a": NaN}', 'X_GATEWARDEN_DATA={"a": 1e999}'),
        *("X_GATEWARDEN_DATA=" + "[" * 3000, 'X_GATEWARDEN_DATA={"a": "' + "x" * DATA_LIMIT + '"}', "X_GATEWARDEN_PROFILE=Low"),
        *("X_GATEWARDEN_WORK=-1", "X_GATEWARDEN_WORK=9223372036854775808", "no key", "X_GATEWARDEN_WORK=" + "9" * 5000),
    ],
)
def test_one_wrong_key_leaves_the_others(line: str) -> None:
    """Pins that a wrong value is one fault that names its key, and that the rest of the datagram counts."""
    said = parse(f"READY=1\n{line}\nSTATUS=ok".encode())
    assert (said.status, len(said.faults)) == ("ok", 1)
    assert said.faults[0].startswith(line.partition("=")[0] if "=" in line else "a line")


@given(st.binary(max_size=3 * LIMIT))
def test_any_bytes_are_read_or_told(data: bytes) -> None:
    """Pins that no datagram raises, and that what comes out is bounded."""
    said = parse(data)
    assert len(said.faults) <= FAULTS
    assert len(said.status or "") <= TEXT_LIMIT


_VALUES = st.one_of(
    st.text(max_size=40),
    st.integers().map(str),
    st.just("1"),
    st.recursive(st.none(), lambda x: st.lists(x, max_size=3)).map(json.dumps),
)


@given(st.lists(st.tuples(st.sampled_from(KEYS), _VALUES), max_size=12))
def test_known_keys_with_any_value(lines: list[tuple[str, str]]) -> None:
    """Pins that what is accepted is within the ranges that the rest of the keeper relies on."""
    said = parse("\n".join(f"{key}={value}" for key, value in lines).encode("utf-8", "surrogatepass"))
    assert said.main_pid is None or 1 < said.main_pid <= 1 << 22
    assert said.watchdog_us is None or 0 <= said.watchdog_us <= 86_400_000_000
    assert said.extend_us is None or 0 < said.extend_us <= 86_400_000_000
    json.dumps(said.event_data, allow_nan=False)
