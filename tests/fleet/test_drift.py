"""Judging probes: closed forms, and what must not change a judgement."""

from collections.abc import Mapping, Sequence
from math import exp, log, pi, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.drift import ALARM_Z, Judgement, confirmed, judge
from fleet.history import Change, Regime, judge_readings, regimes
from fleet.readings import METRICS, readings
from profilers.watch import probe as watch
from tests.fleet.probes import Figures, windows
from tests.fleet.rented import MACHINES, rates, readings_of

figures = st.floats(0.5, 2.0)


def judged(
    earlier: Sequence[Figures],
    fresh: Figures,
    *,
    boots: Sequence[str] = (),
    boot: str = "a",
    speed_ups: bool = False,
) -> dict[str, Judgement]:
    """Judge a probe by earlier ones, all of start "a" of the host unless told otherwise."""
    history = readings(windows(earlier, boots or ["a"] * len(earlier)))
    new = readings(windows([fresh], [boot], first=len(earlier)))
    return {judgement.metric: judgement for judgement in judge(history, new, speed_ups=speed_ups)}


def of_links(*values: float) -> list[Figures]:
    """Return probes of a link, of one window each."""
    return [{watch.TO_SERVER: [value]} for value in values]


def test_z_is_the_distance_in_standard_deviations() -> None:
    """Logarithms of 0, ±0.01 and ±0.02: median 0, median absolute deviation 0.01.

    The scatter that is expected, 0.003, counts as that of five probes more.
    """
    logs = [-0.02, -0.01, 0.0, 0.01, 0.02]
    judgement = judged(of_links(*map(exp, logs)), of_links(exp(-0.1))[0])[watch.TO_SERVER]
    scale = sqrt((5 * 0.003**2 + 5 * (1.4826 * 0.01) ** 2) / (5 + 4))
    assert judgement.z == pytest.approx(0.1 / (scale * sqrt(1 + pi / 2 / 5)))
    assert judgement.expected == pytest.approx(1)
    assert judgement.change == pytest.approx(exp(-0.1) - 1)
    assert (judgement.probes, judgement.verdict, judgement.alarm) == (5, "slower", True)


def test_noise_within_probes_is_the_least_scale() -> None:
    noisy: Figures = {watch.TO_SERVER: [1.0, exp(0.2)]}
    slow: Figures = {watch.TO_SERVER: [exp(-0.3), exp(-0.1)]}
    judgement = judged([noisy] * 8, slow)[watch.TO_SERVER]
    assert judgement.z == pytest.approx(0.3 / (0.1 * sqrt(1 + pi / 2 / 8)))
    assert judgement.verdict == "same"


def test_a_tiny_difference_matters_to_nobody() -> None:
    judgement = judged(of_links(*[1.0] * 9), of_links(0.97)[0])[watch.TO_SERVER]
    assert judgement.z is not None
    assert judgement.z > ALARM_Z
    assert judgement.verdict == "same"


def test_faster_is_noted_and_no_alarm_unless_asked_for() -> None:
    earlier, fresh = of_links(*[1.0] * 9), of_links(1.2)[0]
    judgement = judged(earlier, fresh)[watch.TO_SERVER]
    assert (judgement.verdict, judgement.alarm) == ("faster", False)
    assert judged(earlier, fresh, speed_ups=True)[watch.TO_SERVER].alarm


def test_a_slow_host_is_no_slow_node() -> None:
    chance = np.random.default_rng(0)
    host = exp(0.2) ** chance.standard_normal(20)
    earlier = [{watch.STEP_CPU: [0.02 * factor], watch.GAUGE_US: [90 * factor]} for factor in host]
    slow_host: Figures = {watch.STEP_CPU: [0.03], watch.GAUGE_US: [135.0]}
    assert judged(earlier, slow_host)[watch.STEP_CPU].verdict == "same"
    slow_node: Figures = {watch.STEP_CPU: [0.03], watch.GAUGE_US: [90.0]}
    judgement = judged(earlier, slow_node)[watch.STEP_CPU]
    assert judgement.verdict == "slower"
    assert judgement.change == pytest.approx(0.5, abs=0.02)


def test_history_decides_how_much_of_the_host_a_metric_has() -> None:
    """Steps of a type that ours follow by half only, although all of it is expected."""
    chance = np.random.default_rng(0)
    host = exp(0.2) ** chance.standard_normal(40)
    earlier = [{watch.STEP_CPU: [factor**0.5], watch.GAUGE_US: [factor]} for factor in host]
    judgement = judged(earlier, {watch.STEP_CPU: [sqrt(2)], watch.GAUGE_US: [2.0]})[watch.STEP_CPU]
    assert judgement.expected == pytest.approx(sqrt(2), rel=0.01)


def test_a_new_start_of_the_host_is_judged_with_the_scatter_between_starts() -> None:
    """Levels of 0, 0.1 and 0.2 and a prior of 0.02: nothing of 0.1 is strange."""
    levels = {"a": 0.0, "b": 0.1, "c": 0.2}
    boots = [boot for boot in levels for _ in range(10)]
    earlier = of_links(*(exp(levels[boot]) for boot in boots))
    fresh = of_links(exp(-0.05))[0]
    known = judged(earlier, fresh, boots=boots, boot="a")[watch.TO_SERVER]
    assert known.verdict == "slower"
    assert known.expected == pytest.approx(1, rel=0.001)
    new = judged(earlier, fresh, boots=boots, boot="d")[watch.TO_SERVER]
    between = (3 * 0.02**2 + 2 * 0.1**2) / (3 + 2) * (1 + 1 / 3)
    assert new.expected == pytest.approx(exp(0.1))
    assert new.z == pytest.approx(0.15 / sqrt(between + 5 * 0.003**2 / (5 + 27)))
    assert not new.alarm


def test_nothing_compares_with_probes_of_unknown_hosts() -> None:
    earlier = [{watch.STEP_CPU: [1.0]} for _ in range(9)]
    judgement = judged(earlier, {watch.STEP_CPU: [2.0], watch.GAUGE_US: [90.0]})[watch.STEP_CPU]
    assert (judgement.verdict, judgement.probes) == ("too_few", 0)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(figures, figures), min_size=7, max_size=15),
    st.floats(0.1, 10),
    st.floats(0.1, 10),
    st.sampled_from([watch.STEP_CPU, watch.MEMORY]),
)
def test_the_scale_of_a_start_of_the_host_changes_no_judgement(
    values: list[tuple[float, float]], of_value: float, of_gauge: float, metric: str
) -> None:
    """All its figures and gauges so many times as large: the same distances remain."""

    def found(value: float, gauge: float) -> Judgement:
        gauge_of = METRICS[metric].gauges[-1]
        probes = [{metric: [a * value], gauge_of: [b * gauge]} for a, b in values]
        return judged(probes[:-1], probes[-1])[metric]

    plain, scaled = found(1.0, 1.0), found(of_value, of_gauge)
    assert scaled.z == pytest.approx(plain.z, rel=1e-5, abs=1e-6)
    assert scaled.change == pytest.approx(plain.change, rel=1e-5, abs=1e-6)


@given(st.lists(figures, min_size=6, max_size=12), st.floats(0.05, 0.5))
def test_slower_is_never_judged_faster(values: list[float], by: float) -> None:
    earlier = of_links(*values)
    same, slower = (judged(earlier, of_links(f)[0])[watch.TO_SERVER] for f in (1.0, 1.0 - by))
    assert same.z is not None
    assert slower.z is not None
    assert slower.z > same.z


def said(metric: str, z: float | None, change: float | None, *, alarm: bool = False) -> Judgement:
    """Return a judgement as far as confirming reads it."""
    return Judgement(metric, 1.0, None, change, z, 9, "same", alarm)


def test_a_second_probe_confirms_the_same_metric_and_direction() -> None:
    first = [said(name, 9, 0.2, alarm=name != "calm") for name in "abcde"] + [said("calm", 3, 0.2)]
    second = [
        said("a", 2.5, 0.04),
        said("b", 2.4, 0.2),
        said("c", 9.0, 0.03),
        said("d", -9.0, -0.2),
        said("e", None, None),
        said("calm", 9.0, 0.2, alarm=True),
    ]
    assert confirmed(first, second) == ("a",)
    faster = [said("a", -9, -0.2, alarm=True)]
    assert confirmed(faster, [said("a", -3, -0.2)]) == ("a",)


def test_a_spread_between_machines_is_a_part_of_its_own() -> None:
    """Five machines whose slowness differs by 0.2 in all: the prior weighs as much as three."""
    logs = np.array([0.0, 0.1, -0.1, 0.1, -0.1])
    history = readings_of(logs)
    (judgement,) = judge(history, readings_of(np.array([0.25]), 5))
    prior = METRICS[watch.STEP_TIME].between_machines
    whole = (3 * (prior**2 + 0.03**2) + 0.04) / (3 + 4)
    assert judgement.spread == pytest.approx(sqrt(whole - 0.03**2))
    assert judgement.z == pytest.approx(0.25 / sqrt(whole * (1 + 1 / 5)))
    assert (judgement.machines, judgement.verdict) == (1, "same")


@pytest.mark.parametrize("are_one", [True, False])
def test_a_machine_that_is_28_percent_slower_than_five_others(are_one: bool) -> None:
    history = readings_of(np.zeros(5), are_one=are_one)
    (slow,) = judge(history, readings_of(np.array([log(1.28)]), 5, are_one=are_one))
    assert slow.alarm is are_one


def test_the_newest_machines_count_together() -> None:
    """Each of four is as slow as machines may be; that all are is a change of the type."""
    chance = np.random.default_rng(0)
    logs = 0.17 * chance.standard_normal(30)
    logs[-4:] = log(1.4)
    alone = judge(readings_of(logs[:-4]), readings_of(logs[-1:], 30))[0]
    together = judge(readings_of(logs[:-1]), readings_of(logs[-1:], 30))[0]
    assert (alone.alarm, together.alarm, together.machines) == (False, True, 4)
    assert together.value == pytest.approx(1.4)


@pytest.mark.parametrize("name", ["differ by 17 % (normal)", "one half 28 % slower"])
def test_machines_that_differ_raise_no_alarm_and_a_change_of_all_does(name: str) -> None:
    draw = MACHINES[name]
    assert rates(draw, 20, many=80).confirmed <= 0.02
    assert rates(draw, 20, slower=2.0, many=40).confirmed >= 0.9


LINK = frozenset({watch.TO_SERVER})
BEGAN, ENDED = Change(LINK, ended=False), Change(LINK, ended=True)


def probes(*numbers: int) -> list[str]:
    return [f"probe-{number}" for number in numbers]


@pytest.mark.parametrize(
    ("changes", "odd", "expected"),
    [
        ({}, [], [Regime(None, probes(0, 1, 2, 3, 4, 5))]),
        ({}, [2, 3], [Regime(None, probes(0, 1, 4, 5))]),
        ({3: BEGAN}, [], [Regime(None, probes(0, 1, 2)), Regime(BEGAN, probes(3, 4, 5))]),
        ({2: BEGAN, 4: ENDED}, [], [Regime(None, probes(0, 1, 4, 5))]),
        ({3: ENDED}, [], [Regime(None, probes(0, 1, 2)), Regime(ENDED, probes(3, 4, 5))]),
    ],
)
def test_regimes_begin_and_end_with_changes_and_leave_out_odd_probes(
    changes: Mapping[int, Change], odd: Sequence[int], expected: list[Regime]
) -> None:
    known = {f"probe-{number}": change for number, change in changes.items()}
    assert list(regimes(probes(*range(6)), known, set(probes(*odd)))) == expected


@given(st.lists(st.sampled_from([None, BEGAN, ENDED]), max_size=12), st.sets(st.integers(0, 11)))
def test_no_probe_is_in_two_regimes_and_an_odd_one_in_none(
    changes: list[Change | None], odd: set[int]
) -> None:
    names = probes(*range(len(changes)))
    known = {name: change for name, change in zip(names, changes, strict=True) if change}
    kept = regimes(names, known, set(probes(*odd)))
    listed = [name for regime in kept for name in regime.probes]
    assert listed == sorted(set(listed), key=names.index)
    assert not set(listed) & set(probes(*odd))
    assert kept[0].change is None
    assert all(regime.change for regime in kept[1:])


def told(values: Sequence[float], going_on: Sequence[Regime]) -> dict[str, Judgement]:
    """Judge the last of probes of a link, in logarithms of its speed; its memory is as ever."""
    of = [{watch.TO_SERVER: [exp(value)], watch.MEMORY: [5e9]} for value in values]
    rows = readings(windows(of, ["a"] * len(of)))
    last = f"probe-{len(of) - 1}"
    return {
        judgement.metric: judgement for judgement in judge_readings(rows, tuple(going_on), last)
    }


def outcome(judgement: Judgement) -> tuple[str, bool, int]:
    return judgement.verdict, judgement.alarm, judgement.probes


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
    slow = [SLOW + value for value in USUAL]
    grown = Regime(BEGAN, probes(6, 7, 8, 9, 10, 11))
    still = told([*USUAL, *slow, SLOW], [FIRST, grown])[watch.TO_SERVER]
    assert outcome(still) == ("same", False, 6)
    again = told([*USUAL, *slow, 0.0], [FIRST, grown])[watch.TO_SERVER]
    assert outcome(again) == ("faster", True, 6), "the end of a change is an alarm too"
