"""Mutated files end in a result or in BadInput: as many as a few seconds allow, always the same."""

import pytest

from tests.exhaustive import exhaustive
from tests.fuzz.campaign import reproduce, run
from tests.fuzz.child import make
from tests.fuzz.planted import FAULTS
from tests.fuzz.targets import TARGETS, named

EVERY_PUSH = ("kineto", "study")
FAULTY = "tests.fuzz.planted:FAULTY"


@pytest.mark.parametrize(
    "name",
    [*EVERY_PUSH, *exhaustive(*(name for name in TARGETS if name not in EVERY_PUSH))],
)
def test_mutated_files_are_read_or_refused(name: str) -> None:
    quick = TARGETS[name].quick
    report = run(name, quick)
    assert [
        f"{case.finding.kind} in {case.finding.place}: {case.finding.message}; "
        f"{reproduce(name, report.seed, case.number)}"
        for case in report.found.values()
    ] == []
    assert report.inputs == quick
    assert report.accepted > quick / 20, "hardly any input is accepted: the mutations are too wild"


@pytest.mark.exhaustive
def test_the_fuzzer_finds_every_fault_that_was_planted() -> None:
    target, seed = named(FAULTY), 86
    first = {make(target, FAULTY, seed, i)[:1]: i for i in reversed(range(12))}
    assert len(first) == len(FAULTS)
    report = run(FAULTY, 12, seed)
    assert report.inputs == 12
    assert {(case.finding.kind, case.number) for case in report.found.values()} == {
        ("KeyError", first[b"b"]),
        ("MemoryError", first[b"c"]),
        ("Overdue", first[b"d"]),
        ("died (SIGABRT)", first[b"e"]),
        ("RecursionError", first[b"f"]),
    }
    # What does not matter is left out of what is kept.
    kept = {case.content for case in report.found.values()}
    assert {b"b", b"c", b"d", b"f"} <= kept
