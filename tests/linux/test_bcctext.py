"""The text that BCC compiles, and its compiler's words (recorded from clang 14 with the headers of Debian's 6.12)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import probes
from agent.linux import bcctext
from agent.ports import Hook

SWITCH = "(_Bool, struct task_struct *, struct task_struct *, unsigned int)"
SIGNATURE = """/virtual/main.c:2:1: error: static_assert failed due to requirement '__builtin_types_compatible_p(int (*)(void \
(*)(void *, _Bool, struct task_struct *, struct task_struct *, unsigned int), void *), int (*)(void (*)(void *, _Bool, struct \
task_struct *), void *))' "tracepoint sched_switch has an unknown signature"
_Static_assert(GW_HAS_ARGUMENTS(sched_switch, void (*)(void *, bool, struct task_struct *)), "tracepoint sched_switch has an …
^              ~~~~~~~~~~~~~~~~
1 error generated.
"""
MISSING = """/virtual/main.c:2:16: error: use of undeclared identifier 'register_trace_no_such'; did you mean \
'register_trace_tick_stop'?
_Static_assert(GW_HAS_ARGUMENTS(no_such, void (*)(void *, bool)), "tracepoint no_such has an unknown signature");
/virtual/main.c:2:1: error: static_assert failed due to requirement '…' "tracepoint no_such has an unknown signature"
"""
HEADER = """In file included from /virtual/main.c:1:
In file included from /usr/lib/gatewarden/common.bpf.h:13:
/usr/lib/gatewarden/kernel.bpf.h:12:10: fatal error: 'linux/cgroup.h' file not found
#include <linux/cgroup.h>
         ^~~~~~~~~~~~~~~~
"""


@pytest.mark.parametrize(
    ("said", "means"),
    [
        (
            SIGNATURE,
            f"tracepoint sched_switch has an unknown signature {SWITCH}",
        ),
        (MISSING, "tracepoint no_such is missing in this kernel's headers"),
        (HEADER, "kernel.bpf.h:12: 'linux/cgroup.h' file not found"),
        ("Unable to find kernel headers.\nTry rebuilding kernel", "Unable to find kernel headers. Try rebuilding kernel"),
        ("", ""),
    ],
)
def test_the_compilers_words_become_one_line(said: str, means: str) -> None:
    """Pins the reason that a probe shows: the signature in question, the missing tracepoint, else the first error."""
    assert bcctext.reason(said) == means


@given(st.text() | st.text(alphabet="error: static_assert failed (void *, )\n'\""))
def test_any_words_become_one_short_line(said: str) -> None:
    """Pins that nothing a compiler may say raises, spans lines or floods a status."""
    found = bcctext.reason(said)
    assert len(found.splitlines()) <= 1
    assert len(found) <= 400


@pytest.mark.parametrize(
    ("parameter", "c"),
    [
        ("timer_list *", "struct timer_list *"),
        ("ktime_t *", "ktime_t *"),
        ("void *", "void *"),
        ("hrtimer_mode", "enum hrtimer_mode"),
        ("bool", "bool"),
        ("long unsigned int", "long unsigned int"),
        ("unsigned int", "unsigned int"),
        ("clockid_t", "clockid_t"),
    ],
)
def test_what_btf_leaves_out_of_a_type_is_put_back(parameter: str, c: str) -> None:
    """Pins `struct` before what is pointed to, `enum` before what is passed itself, nothing before C's own and typedefs."""
    assert bcctext.c_type(parameter) == c


def test_each_entry_point_stands_behind_its_signatures() -> None:
    """Pins the whole text: a tracepoint whose parameters are none of the known lists does not compile."""
    hook = Hook("sched_process_exit", ("task_struct *, bool", "task_struct *"))
    assert bcctext.main_text("process_exit.bpf.c", (hook,)) == (
        '#include "process_exit.bpf.c"\n'
        "_Static_assert(GW_HAS_ARGUMENTS(sched_process_exit, void (*)(void *, struct task_struct *, bool)) || "
        "GW_HAS_ARGUMENTS(sched_process_exit, void (*)(void *, struct task_struct *)), "
        '"tracepoint sched_process_exit has an unknown signature");\n'
        "int sched_process_exit_raw(__u64 *ctx) { return sched_process_exit_run(ctx, false); }\n"
    )


def test_sources_ship_beside_the_objects_of_what_both_compilers_take() -> None:
    """Pins that `make -C bpf` leaves the three probes' sources, with every header that they include, for BCC."""
    folder = probes.object_path("timers").parent / "bcc"
    texts = {path.name: path.read_text() for path in folder.iterdir()}
    assert {name for name in texts if name.endswith(".c")} == {"timers.bpf.c", "run_queue.bpf.c", "process_exit.bpf.c"}
    included = {line.split('"')[1] for text in texts.values() for line in text.splitlines() if line.startswith('#include "')}
    assert included <= set(texts)


def test_every_map_is_named_in_the_flags() -> None:
    """Pins how fds reach the sources."""
    assert bcctext.flags("/x", {"ctl": 5}) == ["-DGW_BCC", "-w", "-I/x", "-DGW_FD_ctl=5"]
