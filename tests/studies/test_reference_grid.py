"""The committed studies of the grid keep the rule in lab/grid.md."""

from collections import Counter
from functools import cache
from itertools import product

from networks.catalogue import LIBRARY, family
from networks.figures import table
from profilers.scenarios import step_s
from studies.curve import Curve
from studies.study import Study, read_study
from warehouse.home import CHECKOUT
from warehouse.records import Scenario

STUDIES = CHECKOUT / "studies"
GRID, PILOT = STUDIES / "reference_grid.yaml", STUDIES / "grid_pilot.yaml"
ERNEST, THIRD_TYPE = STUDIES / "grid_ernest.yaml", STUDIES / "grid_third.yaml"
FEW, H100 = STUDIES / "grid_few.yaml", STUDIES / "reference_h100.yaml"
TYPES, THIRD = ("emu.avx512.s15", "emu.avx2.s15"), "emu.sse41.s15"
MOST_S, MOST_PARAMETERS = 4.0, 14e6


@cache
def grid() -> Study:
    """Return the committed study."""
    return read_study(GRID)


def points(part: str) -> list[Scenario]:
    """Return the scenarios of a part of the grid."""
    curves = [curve for curve in grid().curves if grid().place_of(curve).startswith(part)]
    return [scenario for curve in curves for scenario in curve.scenarios("emulated")]


def expected_step_s(dnn: str) -> float:
    """Return about what a step takes on eight nodes of the slower type, 12 images each."""
    curve = Curve(
        dnn=dnn,
        framework="pytorch",
        strategy="all_reduce",
        image_size=64,
        batch_size=12,
        worker=TYPES[1:],
        link_mbps=500,
        workers=(8,),
    )
    expected_s = step_s(curve.scenario(8, "emulated"))
    assert expected_s is not None
    return expected_s


def networks_of(part: str) -> set[str]:
    return {point.workload.dnn for point in points(part)}


def test_the_study_for_any_host_has_the_runs_that_were_judged() -> None:
    """`studies/few.yaml` is what a user runs; `grid_few` judges what that is worth."""
    ours, judged = read_study(FEW.with_name("few.yaml")), read_study(FEW)
    train = [curve for curve in judged.curves if not curve.is_judged]
    assert [curve.scenarios("emulated") for curve in ours.curves] == [
        one.scenarios("emulated") for one in train
    ]


def test_families_on_the_h100_are_in_no_study_before() -> None:
    further = {
        scenario.workload.dnn
        for curve in read_study(H100).curves
        if curve.is_judged
        for scenario in curve.scenarios("loopback")
    } - networks_of("")
    before = set(map(family, networks_of("")))
    assert len({family(name) for name in further} - before) == len(further) == 8


def test_ernest_forecasts_one_test_point_of_each_other_family() -> None:
    others = networks_of("test") - networks_of("train")
    asked = [
        scenario for curve in read_study(ERNEST).curves for scenario in curve.scenarios("emulated")
    ]
    assert {one.workload.dnn for one in asked} == others
    assert set(asked) <= set(points("test"))
    assert len(asked) == len(others)


def test_the_third_type_is_trained_on_by_one_network_of_each_family() -> None:
    study = read_study(THIRD_TYPE)
    parts: dict[bool, list[Scenario]] = {True: [], False: []}
    for curve in study.curves:
        parts[curve.is_judged] += curve.scenarios("emulated")
    judged, train = parts[True], parts[False]
    assert set(judged) == {point for point in points("test") if point.nodes[0].node_type == THIRD}
    assert len(judged) == 8
    assert {one.nodes[0].node_type for one in train} == {THIRD}
    assert len({family(one.workload.dnn) for one in train}) == 8
    assert Counter(one.strategy.workers for one in train) == {1: 8, 2: 4, 4: 4}


def test_there_are_as_many_as_the_rule_says() -> None:
    assert {part: len(points(part)) for part in ("train", "test")} == {
        "train": 80,
        "test": 80,
    }
    assert len({*points("train"), *points("test")}) == 160


def test_eight_families_are_trained_on_and_eight_others_tested() -> None:
    trained, others = networks_of("train"), networks_of("test") - networks_of("train")
    families = Counter(map(family, trained))
    assert sorted(families.values()) == [2] * 8
    unseen = {family(name) for name in others}
    assert (len(others), len(unseen)) == (8, 8)
    assert not unseen & families.keys()


def test_each_setup_is_trained_five_times_and_each_network_in_five() -> None:
    setups = Counter(
        (point.strategy.workers, point.workload.batch_size, point.nodes[0].node_type)
        for point in points("train")
    )
    assert setups == dict.fromkeys(product((1, 2, 4, 8), (4, 12), TYPES), 5)
    assert set(Counter(point.workload.dnn for point in points("train")).values()) == {5}


def test_tests_are_of_seen_networks_other_families_and_a_third_type() -> None:
    third = [point for point in points("test") if point.nodes[0].node_type == THIRD]
    seen = [point for point in points("test") if point.workload.dnn in networks_of("train")]
    assert len(third) == 8
    assert len({one.workload.dnn for one in third}) == 4
    assert len(seen) == 32 + 4
    assert sum(len(one.nodes) > 1 for one in seen) == 4


def test_every_network_is_small_enough() -> None:
    for name in networks_of("train") | networks_of("test"):
        assert name in LIBRARY
        assert table()[name].parameters <= MOST_PARAMETERS
        assert expected_step_s(name) <= MOST_S


def test_the_pilot_has_three_networks_on_both_types_and_six_train_runs() -> None:
    pilot = read_study(PILOT)
    found = {scenario for curve in pilot.curves for scenario in curve.scenarios("emulated")}
    assert (pilot.only_profiles, len(found)) == (True, 12)
    assert not found & set(points("test"))
    assert len(found & set(points("train"))) >= 6
    sizes = sorted(networks_of("train"), key=expected_step_s)
    kinds = Counter((one.workload.dnn, one.nodes[0].node_type) for one in found)
    assert all(kinds[name, kind] for name in (sizes[0], sizes[-1]) for kind in TYPES)
