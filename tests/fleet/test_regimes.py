"""Which probes a new one is compared with, and what that makes of it."""

from collections.abc import Mapping, Sequence
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.drift import Thresholds
from fleet.history import Change, MetricFinding, Regime, judge_readings, regimes
from fleet.readings import readings
from profilers.watch import probe as watch
from tests.fleet.probes import windows

PLAIN = Thresholds(z=4.0, change=0.04, least_probes=5)
LINK = frozenset({watch.TO_SERVER})
BEGAN, ENDED = Change(LINK, ended=False), Change(LINK, ended=True)


def probes(*numbers: int) -> list[str]:
    return [f"probe-{number}" for number in numbers]


def found(changes: Mapping[str, Change], odd: Sequence[str] = (), count: int = 6) -> list[Regime]:
    return list(regimes(probes(*range(count)), changes, set(odd)))


def test_without_changes_all_probes_are_one_regime() -> None:
    assert found({}) == [Regime(None, probes(0, 1, 2, 3, 4, 5))]


def test_probes_of_alarms_that_were_not_confirmed_are_left_out() -> None:
    assert found({}, odd=["probe-2", "probe-3"]) == [Regime(None, probes(0, 1, 4, 5))]


def test_a_change_begins_a_regime_with_its_own_probe() -> None:
    assert found({"probe-3": BEGAN}) == [
        Regime(None, probes(0, 1, 2)),
        Regime(BEGAN, probes(3, 4, 5)),
    ]


def test_the_end_of_a_change_brings_back_what_was_before() -> None:
    assert found({"probe-2": BEGAN, "probe-4": ENDED}) == [Regime(None, probes(0, 1, 4, 5))]


def test_an_end_without_a_beginning_begins_a_regime() -> None:
    assert [one.change for one in found({"probe-3": ENDED})] == [None, ENDED]


@given(
    st.lists(st.sampled_from([None, BEGAN, ENDED]), max_size=12),
    st.sets(st.integers(0, 11)),
)
def test_no_probe_is_in_two_regimes_and_an_odd_one_in_none(
    changes: list[Change | None], odd: set[int]
) -> None:
    names = probes(*range(len(changes)))
    known = {name: one for name, one in zip(names, changes, strict=True) if one}
    ours = regimes(names, known, set(probes(*odd)))
    listed = [name for one in ours for name in one.probes]
    assert listed == sorted(set(listed), key=names.index)
    assert not set(listed) & set(probes(*odd))
    assert ours[0].change is None
    assert all(one.change for one in ours[1:])


def told(values: Sequence[float], going_on: Sequence[Regime]) -> dict[str, MetricFinding]:
    """Judge the last of probes of a link, in logarithms of its speed; its memory is as ever."""
    of = [{watch.TO_SERVER: [exp(value)], watch.MEMORY: [5e9]} for value in values]
    rows = readings(windows(of, ["a"] * len(of)))
    last = f"probe-{len(of) - 1}"
    return {
        reading.judgement.metric: reading
        for reading in judge_readings(rows, tuple(going_on), last, PLAIN)
    }


def outcome(one: MetricFinding) -> tuple[str, bool, int]:
    return one.outcome, one.alarm, one.judgement.probes


USUAL = [0.0, 0.004, -0.004, 0.002, -0.002, 0.0]
FIRST = Regime(None, probes(0, 1, 2, 3, 4, 5))
SLOW = -0.2


def test_a_first_regime_judges_by_itself() -> None:
    assert outcome(told([*USUAL, SLOW], [FIRST])[watch.TO_SERVER]) == ("slower", True, 6)
    assert outcome(told([*USUAL, 0.0], [FIRST])[watch.TO_SERVER]) == ("same", False, 6)


@pytest.mark.parametrize(
    ("value", "expected"), [(SLOW, ("slower", False, 6)), (0.0, ("ended", True, 6))]
)
def test_a_young_regime_is_compared_with_the_one_before(
    value: float, expected: tuple[str, bool, int]
) -> None:
    """As slow as it became is no news; as it was before is."""
    young = Regime(BEGAN, probes(6, 7))
    of = told([*USUAL, SLOW, SLOW, value], [FIRST, young])
    assert outcome(of[watch.TO_SERVER]) == expected
    assert outcome(of[watch.MEMORY]) == ("same", False, 6)


def test_a_regime_with_probes_enough_judges_by_itself() -> None:
    slow = [SLOW + one for one in USUAL]
    grown = Regime(BEGAN, probes(6, 7, 8, 9, 10, 11))
    still = told([*USUAL, *slow, SLOW], [FIRST, grown])[watch.TO_SERVER]
    assert outcome(still) == ("same", False, 6)
    again = told([*USUAL, *slow, 0.0], [FIRST, grown])[watch.TO_SERVER]
    assert outcome(again) == ("faster", True, 6), "the end of a change is an alarm too"
