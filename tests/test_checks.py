"""The check runner: each state from facts by hand, tiers, the verdict, and the rules that hold for every check."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.checks import GROUPS, Check, live_verdict, run, tier, verdict
from agent.errors import Problem
from agent.linux.facts import Bpffs, Facts, Folder
from agent.linux.watchdogfacts import WatchdogFacts
from agent.model import Data, State

ROOM = Folder("/var/lib/gatewarden", exists=True, writable=True, free_bytes=1 << 32, free_inodes=10**6)
WELL = Facts(
    release="6.1.0-50-amd64",
    bpf=True,
    btf=True,
    kprobes=True,
    libbpf=True,
    lockdown="none",
    sysctls={"unprivileged_bpf_disabled": 2, "perf_event_paranoid": 3, "kptr_restrict": 1, "dmesg_restrict": 1},
    uid=990,
    capabilities=frozenset(),
    exposed=("", ""),
    bpffs=Bpffs("/run/gatewarden-bpf", mounted=True, mode=0o750, group="gatewarden", pinned=True),
    missing_users=(),
    missing_groups=(),
    broker=True,
    state_dir=ROOM,
    runtime_dir=ROOM,
    clock_synchronised=True,
    wall_s=1_796_000_000.0,
    rtc_s=1_796_000_001,
    cgroup="v2",
    psi=True,
    watchdogs=(WatchdogFacts("watchdog0", "/dev/watchdog0", "iTCO_wdt", running=True, timeout_s=60),),
    boot_covered=True,
    pstore=("efi_pstore", True),
    pid_namespace="initial",
    systemd=True,
    load_probes="as root: agentctl --config /x.toml probes load",
    start="systemctl start gatewarden",
)
FED: Data = {
    "name": "watchdog0",
    "kind": "kernel",
    "state": "ok",
    "condition": "armed",
    "owner": "agentd",
    "hardware": True,
    "identity": "iTCO_wdt",
    "reason": "",
    "remedy": "",
}
LIVE: Data = {
    "version": "0.1.0",
    "tier": "A",
    "probes": [{"name": "timers", "state": "ok", "reason": "", "remedy": "", "events": 1000, "lost": 0}],
    "mqtt": {"state": "connected", "backlog_bytes": 0, "oldest_s": 0, "dropped": 0},
    "findings": [],
    "watchdogs": [FED],
    "last_reset": {"cause": "watchdog", "confidence": "high", "proven": True},
}


def bad(facts: Facts, status: Data | None = None) -> list[tuple[str, str, State]]:
    """Give the checks that are not ok."""
    return [
        (check.group, check.name, check.state)
        for check in run(facts, LIVE if status is None else status)
        if check.state != "ok"
    ]


def named(name: str, facts: Facts, status: Data | None = None) -> Check:
    """Give the one check called `name`."""
    (found,) = [check for check in run(facts, LIVE if status is None else status) if check.name == name]
    return found


def test_a_gateway_that_is_well() -> None:
    """Everything ok, in all groups, and so is the verdict."""
    found = run(WELL, LIVE)
    assert bad(WELL) == []
    assert tuple(dict.fromkeys(check.group for check in found)) == GROUPS
    assert verdict(found) == "ok"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"release": "4.19.0"}, [("privileges", "capabilities", "degraded"), ("kernel", "release", "critical")]),
        ({"release": "rubbish"}, [("kernel", "release", "unknown")]),
        (
            {"lockdown": "confidentiality"},
            [
                ("kernel", "tier", "degraded"),
                ("kernel", "lockdown", "degraded"),
                ("privileges", "perf_event_paranoid", "degraded"),
            ],
        ),
        ({"lockdown": None}, [("kernel", "lockdown", "unknown")]),
        ({"libbpf": False}, [("kernel", "libbpf", "degraded")]),
        ({"psi": False}, [("kernel", "PSI", "degraded")]),
        ({"cgroup": "v1"}, [("kernel", "cgroup", "degraded")]),
        ({"cgroup": None}, [("kernel", "cgroup", "unknown")]),
        ({"capabilities": None}, [("privileges", "capabilities", "unknown")]),
        ({"bpffs": replace(WELL.bpffs, mode=0o755)}, [("privileges", "bpffs", "degraded")]),
        ({"bpffs": replace(WELL.bpffs, group="root")}, [("privileges", "bpffs", "degraded")]),
        ({"bpffs": replace(WELL.bpffs, mode=None)}, [("privileges", "bpffs", "unknown")]),
        ({"bpffs": replace(WELL.bpffs, mounted=None)}, [("privileges", "bpffs", "unknown")]),
        ({"missing_users": ("gatewarden-work",)}, [("privileges", "users", "degraded")]),
        ({"missing_groups": None}, [("privileges", "users", "unknown")]),
        (
            {"sysctls": WELL.sysctls | {"unprivileged_bpf_disabled": 0}},
            [("privileges", "unprivileged_bpf_disabled", "degraded")],
        ),
        ({"sysctls": WELL.sysctls | {"kptr_restrict": None}}, [("privileges", "kptr_restrict", "unknown")]),
        ({"broker": False}, [("privileges", "dmesg_restrict", "degraded")]),
        ({"state_dir": replace(ROOM, exists=False)}, [("resources", "state_dir", "critical")]),
        ({"state_dir": replace(ROOM, writable=False)}, [("resources", "state_dir", "critical")]),
        ({"state_dir": replace(ROOM, free_bytes=1 << 20)}, [("resources", "state_dir", "degraded")]),
        ({"state_dir": replace(ROOM, free_inodes=3)}, [("resources", "state_dir", "degraded")]),
        ({"state_dir": replace(ROOM, free_inodes=None)}, []),
        ({"runtime_dir": replace(ROOM, free_bytes=None)}, [("resources", "runtime_dir", "unknown")]),
        ({"clock_synchronised": False}, [("resources", "clock", "degraded")]),
        ({"clock_synchronised": None}, [("resources", "clock", "unknown")]),
        ({"wall_s": 100.0, "rtc_s": 100}, [("resources", "clock", "degraded")]),
        ({"rtc_s": 0}, [("resources", "rtc", "degraded")]),
        ({"rtc_s": None}, [("resources", "rtc", "unknown")]),
        ({"pid_namespace": "own"}, [("privileges", "pid_namespace", "degraded")]),
        ({"pid_namespace": None}, [("privileges", "pid_namespace", "unknown")]),
    ],
)
def test_one_fact_one_check(change: dict[str, Any], expected: list[tuple[str, str, State]]) -> None:
    """Each fact that is not as it should be shows in its own check, and in no other that it does not touch."""
    assert sorted(bad(replace(WELL, **change))) == sorted(expected)


@pytest.mark.parametrize(
    ("change", "letter", "said"),
    [
        ({}, "A", "kprobes"),
        ({"kprobes": False}, "B", "no kprobes"),
        ({"btf": False, "external_btf": "/boot/vmlinux"}, "C", "/boot/vmlinux"),
        ({"btf": False, "bcc_lacks": None}, "D", "BCC"),
        ({"btf": False}, "D", "BCC"),  # pinned, so somebody could compile
        (
            {"btf": False, "capabilities": frozenset({"BPF", "PERFMON"}), "bpffs": replace(WELL.bpffs, pinned=False)},
            "E",
            "no BTF, and BCC is not installed",
        ),
        ({"bpf": False}, "E", "CONFIG_BPF_SYSCALL"),
        ({"bpf": None}, "E", "/proc is not mounted"),
        ({"lockdown": "confidentiality"}, "E", "locked down"),
        ({"bpffs": replace(WELL.bpffs, pinned=None)}, "E", "may not load"),
        ({"bpffs": replace(WELL.bpffs, pinned=None), "capabilities": frozenset({"BPF", "PERFMON"})}, "A", "kprobes"),
    ],
)
def test_tiers(change: dict[str, Any], letter: str, said: str) -> None:
    """The tier and its reason, from what the kernel has and this process may."""
    found = tier(replace(WELL, **change))
    assert found.letter == letter
    assert said in found.reason


def test_ways_to_hold_privileges() -> None:
    """Root, two capabilities, and readable pins are well; nothing at all, or pins before 5.19 without CAP_BPF, are not."""
    none = replace(WELL, bpffs=replace(WELL.bpffs, pinned=False))
    assert named("capabilities", replace(none, capabilities=frozenset({"SYS_ADMIN"}))).state == "ok"
    assert named("capabilities", replace(none, capabilities=frozenset({"BPF", "PERFMON"}))).state == "ok"
    assert named("capabilities", none).remedy.startswith("as root: agentctl --config /x.toml probes load")
    assert named("capabilities", replace(WELL, release="5.10.0")).state == "degraded"
    assert named("capabilities", replace(WELL, release="5.10.0", capabilities=frozenset({"BPF"}))).state == "ok"


def test_a_foreground_agent_needs_no_bpffs() -> None:
    """Without a mount the check is ok while probes run, else it names the line that mounts one."""
    without = replace(WELL, bpffs=Bpffs("/run/gatewarden-bpf", mounted=False))
    assert named("bpffs", without).state == "ok"
    assert named("bpffs", without, {}).remedy == "as root: agentctl --config /x.toml probes load"


def live(**change: Any) -> Data:
    """Give LIVE with changes."""
    return LIVE | change


def test_probes_of_a_running_agent() -> None:
    """Each probe is a check; a lossy one is degraded; one that is off says why and how to turn it on."""
    off = {"name": "irq", "state": "degraded", "reason": "switched off", "remedy": "agentctl probes load"}
    status = live(probes=[{"name": "timers", "state": "ok", "events": 1000, "lost": 11}, off])
    assert bad(WELL, status) == [("probes", "timers", "degraded"), ("probes", "irq", "degraded")]
    assert named("timers", WELL, status).reason == "11 of 1000 events lost"
    assert named("irq", WELL, status).remedy == "agentctl probes load"


def test_open_findings() -> None:
    """A finding is a check of its own, and decides the verdict."""
    status = live(findings=[{"detector": "timer_late", "subject": "f", "state": "critical", "summary": "f is late"}])
    assert named("timer_late f", WELL, status).reason == "f is late"
    assert verdict(run(WELL, status)) == "critical"


@pytest.mark.parametrize(
    ("mqtt", "expected"),
    [
        ({"state": "off"}, []),
        ({"state": "connecting", "oldest_s": 60}, []),
        ({"state": "connecting", "oldest_s": 7200}, [("telemetry", "mqtt", "degraded")]),
        ({"state": "connected", "dropped": 3, "dropped_s": 3600.0}, [("telemetry", "outbox", "degraded")]),
        ({"state": "connected", "dropped": 3, "dropped_s": 90_000.0}, []),
        ({"state": "connected", "dropped": 3, "dropped_s": None}, []),
        ({"state": "connected", "store_error": "disk full"}, [("telemetry", "outbox", "degraded")]),
        ({"state": "unknown"}, [("telemetry", "mqtt", "unknown")]),
        (None, [("telemetry", "mqtt", "unknown")]),
    ],
)
def test_telemetry(mqtt: Data | None, expected: list[tuple[str, str, State]]) -> None:
    """No broker is a choice, a broker away is what the outbox is for, an hour of it and losses are degraded."""
    assert bad(WELL, live(mqtt=mqtt)) == expected


def test_a_metrics_page_that_cannot_be_served() -> None:
    """It is degraded from the start, with the package that it lacks; without the section there is no such check."""
    page: Data = {"reason": "no prometheus_client", "remedy": "pip install 'gatewarden[metrics]'"}
    assert bad(WELL, live(metrics=page)) == [("telemetry", "metrics", "degraded")]
    assert not [check for check in run(WELL, LIVE) if check.name == "metrics"]


@pytest.mark.parametrize("systemd", [True, False])
def test_remedies_talk_to_systemd_only_where_it_runs(systemd: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """In a container systemctl, journalctl and timedatectl have nobody to talk to: the plain command is named."""
    here = replace(WELL, systemd=systemd, clock_synchronised=False, broker=False, start="x", start_broker="y")
    status = live(mqtt={"state": "connected", "store_error": "disk full"})
    remedies = " ".join(check.remedy for check in (*run(here, status), *run(here, None)))
    assert ("journalctl" in remedies, "timedatectl" in remedies) == (systemd, systemd)
    assert "systemctl" not in remedies


def test_missing_users_are_made_by_the_line_of_the_remedy() -> None:
    """It works without any file of ours: useradd, for each that is missing, with its group."""
    remedy = named("users", replace(WELL, missing_users=("gatewarden-work",))).remedy
    assert remedy.startswith("as root: useradd --system --user-group ")
    assert remedy.endswith(" gatewarden-work")


def test_a_dead_agent() -> None:
    """Its last status says that it is dead, and nothing of the probes in it is believed."""
    found = run(WELL, live(stale_s=99))
    agentd = named("agentd", WELL, live(stale_s=99))
    assert (agentd.state, agentd.reason) == ("critical", "agentd is not running; its last status is 99 s old")
    assert not [check for check in found if check.name == "timers"]
    assert verdict(found) == "critical"


def test_an_agent_never_started() -> None:
    """No status at all is unknown, and so is the verdict of a box that is well otherwise."""
    assert verdict(run(WELL, None)) == "unknown"


def test_problems_of_the_configuration() -> None:
    """Each is a check with its line, up to twenty; then their number."""
    problems = tuple(Problem("/etc/a.toml", line, f"k{line}", "is bad", "better") for line in range(1, 31))
    found = [check for check in run(WELL, LIVE, problems) if check.group == "configuration"]
    assert len(found) == 21
    assert found[0] == Check(
        "configuration", "k1", "critical", "/etc/a.toml:1: k1: is bad, allowed: better", "edit /etc/a.toml line 1"
    )
    assert found[20].reason == "10 more problems"


def test_defaults_are_not_called_a_file_without_problems() -> None:
    """Without the default file agentctl uses the defaults, and agentd does not start: that is said, with the line."""
    found = next(check for check in run(WELL, LIVE, (), "/etc/gatewarden/agent.toml") if check.group == "configuration")
    assert (found.state, found.reason.startswith("defaults: no file /etc/gatewarden/agent.toml")) == ("degraded", True)
    assert found.remedy == "as root: install -D -m 0644 /dev/null /etc/gatewarden/agent.toml"


def check(state: State, group: Any = "kernel") -> Check:
    """Make one check."""
    return Check(group, "x", state, "r", "m")


def test_verdict() -> None:
    """The worst wins; an unknown weighs only if its group knows nothing else."""
    assert verdict([]) == "ok"
    assert verdict([check("ok"), check("unknown")]) == "ok"
    assert verdict([check("unknown"), check("ok", "probes")]) == "unknown"
    assert verdict([check("unknown"), check("degraded", "probes")]) == "degraded"
    assert verdict([check("degraded"), check("critical")]) == "critical"


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "state", "events", "lost", "oldest_s"]), inner)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from([*LIVE, "stale_s"]), JSON),
    st.fixed_dictionaries(
        {},
        optional={
            "bpf": st.none() | st.booleans(),
            "btf": st.booleans(),
            "release": st.text(max_size=9),
            "lockdown": st.sampled_from([None, "none", "confidentiality"]),
            "capabilities": st.none() | st.just(frozenset({"BPF"})),
            "clock_synchronised": st.none() | st.booleans(),
            "rtc_s": st.none() | st.integers(),
            "bpffs": st.builds(
                Bpffs, st.just("/b"), st.none() | st.booleans(), st.none() | st.integers(0, 0o7777), st.none() | st.text()
            ),
        },
    ),
)
def test_every_check_of_any_machine_is_well_formed(status: Data, change: dict[str, Any]) -> None:
    """Whatever status and facts say: no exception; each check that is not ok has a reason and a remedy of one line."""
    for found in run(replace(WELL, **change), status):
        assert found.group in GROUPS
        assert found.state in get_args(State)
        assert found.state == "ok" or len(found.remedy.splitlines()) == 1, found


def test_nothing_known_is_never_ok() -> None:
    """A machine of which nothing can be read has no healthy group but the configuration that was given."""
    found = run(Facts(), None)
    assert verdict(found) in {"critical", "unknown"}
    ok = {(item.group, item.name) for item in found if item.state == "ok"}
    assert ok <= {("configuration", "file")}


@pytest.mark.parametrize(("rooted", "state"), [(True, "degraded"), (False, "ok")])
def test_who_may_change_the_configuration(rooted: bool, state: State) -> None:  # noqa: FBT001
    """A file that others may change matters where a process of root's follows it, and names the line that ends it."""
    place = Bpffs("/run/gatewarden-bpf", mounted=True, mode=0o750, group="gatewarden", pinned=rooted)
    facts = replace(WELL, exposed=("/x belongs to uid 5", "chown root /x"), bpffs=place, broker=False)
    check = next(check for check in run(facts, LIVE) if check.name == "owner")
    assert check.state == state
    assert ("chown root /x" in check.remedy) is rooted


def test_nothing_at_all_feeds_a_watchdog() -> None:
    """One line says so, whatever the reason: none there, only software, switched off, agentd in the foreground."""
    bare = replace(WELL, watchdogs=())
    assert named("feeding", bare, live(watchdogs=[])).reason.startswith("nothing feeds a hardware watchdog")
    soft = replace(WELL, watchdogs=(WatchdogFacts("watchdog0", "/dev/watchdog0", "Software Watchdog"),))
    assert named("feeding", soft, live(watchdogs=[FED | {"hardware": False}])).state == "degraded"
    off = FED | {"condition": "off", "owner": None, "state": "unknown", "reason": "agentd runs in the foreground"}
    found = named("feeding", WELL, live(watchdogs=[off]))
    assert (found.state, found.remedy) == ("degraded", 'set [watchdog] mode = "own"')
    assert "foreground" in found.reason
    assert (
        named("feeding", bare, live(watchdogs=[{"name": "mcu", "kind": "mcu", "state": "ok", "owner": "agentd"}])).state == "ok"
    )


def test_delegated_to_a_systemd_that_feeds_none() -> None:
    """Delegation is decided by what systemd really does: RuntimeWatchdogSec= or nothing."""
    theirs = live(watchdogs=[FED | {"condition": "delegated", "owner": "systemd"}])
    assert named("feeding", WELL, theirs).state == "critical"
    assert "RuntimeWatchdogSec=60" in named("feeding", WELL, theirs).remedy
    assert named("feeding", replace(WELL, systemd_watchdog_s=60.0), theirs).state == "ok"


def test_a_dead_agentd_leaves_the_watchdog_unknown_or_to_systemd() -> None:
    """A watchdog that counts with nobody known to feed it is unknown; one that systemd feeds is well."""
    assert named("feeding", WELL, {}).state == "unknown"
    stopped = replace(WELL, watchdogs=(replace(WELL.watchdogs[0], running=False),))
    assert named("feeding", stopped, {}).state == "degraded"
    assert named("feeding", replace(stopped, systemd_watchdog_s=60.0), {}).state == "ok"


def test_each_watchdog_that_is_not_well() -> None:
    """A busy device is a check of its own; withheld feeds decide the verdict, of agentd's own status too."""
    busy = FED | {
        "state": "degraded",
        "condition": "busy",
        "reason": "already open: watchdogd (pid 7)",
        "remedy": "one owner only",
    }
    assert named("watchdog0", WELL, live(watchdogs=[busy])).reason == "already open: watchdogd (pid 7)"
    withheld = FED | {"state": "critical", "condition": "withheld", "reason": "not fed: camera-1 did not report"}
    assert live_verdict(live(watchdogs=[withheld])) == "critical"
    assert live_verdict(live(watchdogs=[FED])) == "ok"


@pytest.mark.parametrize(
    ("change", "name", "state"),
    [
        ({"boot_covered": False}, "boot", "degraded"),
        ({"boot_covered": None}, "boot", "unknown"),
        ({"watchdogs": ()}, "boot", "degraded"),
        ({"pstore": ("", False)}, "pstore", "degraded"),
        ({"pstore": ("erst", False)}, "pstore", "degraded"),
        ({"pstore": None}, "pstore", "unknown"),
    ],
)
def test_what_covers_the_start_and_keeps_a_panic(change: dict[str, Any], name: str, state: State) -> None:
    """The firmware's watchdog with a bounded kernel covers the start; a panic needs a backend and a mount."""
    assert named(name, replace(WELL, **change)).state == state


def test_a_watchdog_is_not_proven_before_it_has_reset_the_machine() -> None:
    """Some firmwares feed it themselves: without a reset on record it is unknown whether it works."""
    found = named("proven", WELL, live(last_reset={"cause": "power_cut"}))
    assert (found.state, "not proven" in found.reason) == ("unknown", True)


WORKLOAD: Data = {"name": "camera-1", "state": "running", "parent": "keeper", "required": True, "proven": True, "reason": ""}


@pytest.mark.parametrize(
    ("row", "name", "state", "says"),
    [
        ({"state": "backoff", "reason": "exit code 3"}, "camera-1", "degraded", "backoff: exit code 3"),
        ({"state": "failed"}, "camera-1", "critical", "failed"),
        ({"state": "failed", "required": False}, "camera-1", "degraded", "failed"),
        ({"state": "unknown", "reason": "no such file"}, "keeper", "critical", "1 without a keeper: no such file"),
        ({"proven": False}, "camera-1", "degraded", "not proven"),
        ({"supervised": True, "by": "cam.service"}, "camera-1", "degraded", "two masters: systemd restarts cam.service itself"),
    ],
)
def test_workloads_that_are_not_as_they_should_be(row: Data, name: str, state: State, says: str) -> None:
    """Pins what is said of each, with a remedy: no work, no keeper, no proof, another master."""
    found = named(name, WELL, {**LIVE, "workloads": [{**WORKLOAD, **row}]})
    assert (found.group, found.state) == ("workloads", state)
    assert says in found.reason
    assert found.remedy


@pytest.mark.parametrize("row", [{}, {"state": "starting"}, {"state": "stopped", "hold_until": 1.0}, {"required": False}])
def test_workloads_that_are_as_they_should_be(row: Data) -> None:
    """Pins that one which works, starts, or is stopped on hold costs nobody's verdict."""
    status: Data = {**LIVE, "workloads": [{**WORKLOAD, **row}]}
    assert named("states", WELL, status).state == "ok"
    assert live_verdict(status) == "ok"


def test_safe_mode_is_critical() -> None:
    """Pins that a boot loop shows wherever somebody looks."""
    status: Data = {**LIVE, "safe_mode": "boot loop: 3 in a row"}
    assert named("safe mode", WELL, status).reason == "boot loop: 3 in a row"
    assert live_verdict(status) == "critical"
