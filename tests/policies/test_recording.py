"""recording: a storm is bounded, and what is left out is counted."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agent.model import Sighting
from agent.policies import recording
from agent.policies.recording import ALL, EACH, NS, SUBJECTS, Recording

DEATH = Sighting(0, "process_exit", "proc.exit", "sleep", "warning")


def kept(table: Recording, *sightings: Sighting) -> list[int | None]:
    """Give the verdict on each."""
    return [table.keep(sighting) for sighting in sightings]


def test_a_burst_is_recorded_whole_and_a_storm_is_cut() -> None:
    """The first `EACH.burst` are records; of what follows at once nothing is, and it is counted."""
    verdicts = kept(table := Recording(), *[DEATH] * (EACH.burst + 50))
    assert verdicts == [0] * EACH.burst + [None] * 50
    assert table.left_out == 50


def test_the_next_record_says_how_many_were_left_out() -> None:
    """A minute later there is room again, and the first one carries the count."""
    table = Recording()
    kept(table, *[DEATH] * (EACH.burst + 7))
    assert table.keep(replace(DEATH, t_mono_ns=60 * NS)) == 7
    assert table.keep(replace(DEATH, t_mono_ns=60 * NS)) == 0


def test_one_noisy_subject_does_not_silence_another() -> None:
    """Each kind and subject has a bucket of its own."""
    table = Recording()
    kept(table, *[DEATH] * (EACH.burst + 1))
    assert table.keep(replace(DEATH, subject="ffmpeg")) == 0
    assert table.keep(replace(DEATH, kind="timer.late")) == 0


def test_many_subjects_together_are_bounded_but_critical_ones_are_kept() -> None:
    """When the common bucket is empty only critical events pass, each within its own."""
    table = Recording()
    crowd = [replace(DEATH, subject=f"p{n}") for n in range(ALL.burst + 20)]
    assert kept(table, *crowd).count(None) == 20
    assert table.keep(replace(DEATH, subject="victim", severity="critical")) == 0


@given(st.lists(st.tuples(st.integers(0, 10**12), st.text(max_size=2), st.sampled_from(["info", "critical"])), max_size=300))
def test_nothing_is_forgotten_and_memory_is_bounded(seen: list[tuple[int, str, str]]) -> None:
    """Kept and left out add up to what came; no more than SUBJECTS buckets are held."""
    table = Recording()
    verdicts = [table.keep(Sighting(t, "s", "k", subject, severity)) for t, subject, severity in seen]  # type: ignore[arg-type]
    assert table.left_out == verdicts.count(None)
    assert len(table._each) <= SUBJECTS
    assert recording.EACH.burst >= 100  # a person who kills a hundred processes by hand sees each of them
