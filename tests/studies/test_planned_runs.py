"""What studies need of each probe, who may see it, and what forecasts of a curve rest on."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from models.ceer.systems import CEER, CEER_PYTORCH
from models.srift.system import SRIFT
from profilers.probe import PlannedRun
from profilers.probes import PROBES
from studies.study import Study, read_study
from tests.synthetic import (
    DDP,
    LOOPBACK,
    ONLY_PROFILES,
    PYTORCH,
    STUDY,
    SYNCHRONOUS,
    needs,
    seen_of,
    write_study,
)
from warehouse.records import BadInput

SLOWED = DDP.replace("  torch_throughput", "  slowdown: {trials: 4}\n  torch_throughput")


def study(folder: Path, text: str) -> Study:
    return read_study(write_study(folder, text))


def titles(planned_runs: Sequence[PlannedRun]) -> list[str]:
    return [need.title for need in planned_runs]


def of_probe(whole: Study, probe: str) -> list[PlannedRun]:
    return [need for need in needs(whole) if need.probe == probe]


def judges(whole: Study) -> list[PlannedRun]:
    return [need for need in needs(whole) if not need.profiles and PROBES[need.probe].metric]


def networks(planned_runs: Sequence[PlannedRun]) -> set[str]:
    return {need.scenario.workload.dnn for need in planned_runs}


def test_data_parallel_curves_share_links_all_reduces_and_passes(tmp_path: Path) -> None:
    assert titles(needs(study(tmp_path, DDP))) == [
        "probe links, 800 Mb/s",
        "probe allreduce, 800 Mb/s, emu.native.c25, 2 ranks",
        "probe allreduce, 800 Mb/s, emu.native.c25, 3 ranks",
        "probe allreduce, 800 Mb/s, emu.native.c25 + emu.avx2.c25, 2 ranks",
        "probe allreduce, 800 Mb/s, emu.native.c25 + emu.avx2.c25, 3 ranks",
        "profile resnet18 32px b8, unshaped, all-reduce, W=1 (1 emu.native.c25)",
        "profile resnet18 32px b8, unshaped, all-reduce, W=1 (1 emu.avx2.c25)",
        "measure resnet18 32px b4, 800 Mb/s, all-reduce, W=2 (2 emu.native.c25)",
        "measure resnet18 32px b4, 800 Mb/s, all-reduce, W=3 (3 emu.native.c25)",
        "measure resnet18 32px b8, 800 Mb/s, all-reduce, W=3 (1 emu.avx2.c25 + 2 emu.native.c25)",
    ]


def test_slowdown_is_probed_on_each_type_that_trains_alone(tmp_path: Path) -> None:
    """Of the mix nothing is probed: passes of its nodes are slowed together."""
    whole = study(tmp_path, SLOWED)
    probed = of_probe(whole, "slowdown")
    assert [need.scenario.nodes[0].node_type for need in probed] == ["emu.native.c25"]
    assert {need.scenario.strategy.workers for need in probed} == {3}
    for curve in whole.curves:
        assert [need for need in seen_of(curve, whole, "emulated") if need in probed] == probed
    assert len(judges(whole)) == 3


def test_held_out_batches_judge_profiles_and_are_not_seen(tmp_path: Path) -> None:
    whole = study(tmp_path, DDP.replace("[1, 8], trials", "[1, 8], held_out: [2, 4], trials"))
    passes = of_probe(whole, "torch_compute")
    assert [need.profiles for need in passes] == [True, True, False, False]
    assert titles(passes[2:]) == [
        "time held-out batches, resnet18 32px b4, unshaped, all-reduce, W=1 (1 emu.native.c25)",
        "time held-out batches, resnet18 32px b4, unshaped, all-reduce, W=1 (1 emu.avx2.c25)",
    ]
    for curve in whole.curves:
        assert not set(seen_of(curve, whole, "emulated")) & set(passes[2:])


def test_synchronous_scenarios_judge_unless_they_are_train(tmp_path: Path) -> None:
    whole = study(tmp_path, SYNCHRONOUS)
    alexnet, small = "alexnet 64px b4", "small_cnn 24px b4"
    alone, shaped = "unshaped, all-reduce, W=1 (1 emu.native.c25)", "800 Mb/s, all-reduce"
    assert [(need.title, need.probe, need.purpose, need.of_train) for need in needs(whole)] == [
        (f"profile {alexnet}, {alone}", "tf_operations", "profile", True),
        (f"measure {alexnet}, {shaped}, W=1 (1 emu.native.c25)", "tf_sync", "profile", True),
        (f"measure {alexnet}, {shaped}, W=2 (2 emu.native.c25)", "tf_sync", "profile", True),
        (f"profile {small}, {alone}", "tf_operations", "measurement", False),
        (f"measure {small}, {shaped}, W=2 (2 emu.native.c25)", "tf_sync", "measurement", False),
    ]
    (judge,) = judges(whole)
    seen = seen_of(whole.curve_of(judge.scenario, "emulated"), whole, "emulated", CEER)
    assert networks([judge]) == {"small_cnn"}
    assert networks(seen) == {"alexnet"}
    assert len(seen) == 3


@pytest.mark.parametrize(
    ("text", "probe"), [(SYNCHRONOUS, "tf_operations"), (PYTORCH, "torch_operations")]
)
def test_operations_of_test_scenarios_are_timed_only_where_asked_and_hidden(
    text: str, probe: str, tmp_path: Path
) -> None:
    with_test, without = (
        of_probe(study(tmp_path, variant), probe)
        for variant in (text, text.replace(", test: true", ""))
    )
    hidden = [need for need in with_test if need.purpose == "measurement"]
    assert len(hidden) == 1
    assert [need for need in with_test if need not in hidden] == without
    assert all(need.of_train for need in without)
    whole = study(tmp_path, text)
    for curve in whole.curves:
        if curve.is_judged:
            assert not set(hidden) & set(seen_of(curve, whole, "emulated"))


def test_what_train_and_test_share_is_of_train_and_visible(tmp_path: Path) -> None:
    """Both train alexnet, so that it is alone on the same node."""
    text = PYTORCH.replace("workers: [1, 2, 3]", "workers: [1, 2]").replace(
        "dnn: resnet18", "dnn: [resnet18, alexnet]"
    )
    text = text.replace("link_mbps: 800, workers: [2, 3]", "link_mbps: 800, workers: [3]")
    whole = study(tmp_path, text)
    by_dnn = {need.scenario.workload.dnn: need for need in of_probe(whole, "torch_operations")}
    assert {dnn: (need.purpose, need.of_train) for dnn, need in by_dnn.items()} == {
        "vgg11": ("profile", True),
        "alexnet": ("profile", True),
        "resnet18": ("measurement", False),
    }


def test_two_systems_that_see_different_profiles_judge_one_scenario(tmp_path: Path) -> None:
    whole = study(tmp_path, PYTORCH)
    by_probe = {
        need.probe: [other.purpose for other in needs(whole) if other.probe == need.probe]
        for need in needs(whole)
    }
    assert by_probe == {
        "links": ["profile"],
        "allreduce": ["profile"],
        "torch_operations": ["profile", "profile", "measurement"],
        "torch_compute": ["profile"],
        "torch_throughput": ["profile"] * 6 + ["measurement"] * 2,
    }
    (curve,) = (curve for curve in whole.curves if curve.is_judged)
    by_srift = seen_of(curve, whole, "emulated", SRIFT)
    own = [need for need in by_srift if not need.of_train]
    assert [need.probe for need in own] == ["links", "allreduce", "torch_compute"]
    assert networks(own[2:]) == {"resnet18"}
    trained = [need for need in by_srift if need.of_train]
    assert [need.probe for need in trained] == ["torch_throughput"] * 6
    assert networks(trained) == {"vgg11", "alexnet"}
    by_ceer = seen_of(curve, whole, "emulated", CEER_PYTORCH)
    assert {need.probe for need in by_ceer} == {"torch_operations", "torch_throughput"}
    assert all(need.of_train and need.profiles for need in by_ceer)
    assert networks(by_ceer) == {"vgg11", "alexnet"}
    assert len(by_ceer) == 2 + 6


def test_what_no_chosen_system_asks_for_is_not_measured(tmp_path: Path) -> None:
    assert {need.probe for need in needs(study(tmp_path, STUDY))} == {
        "links",
        "tf_trace",
        "tf_throughput",
    }
    linear = STUDY.replace(LOOPBACK, "systems: [linear]")
    assert {need.probe for need in needs(study(tmp_path, linear))} == {"tf_trace", "tf_throughput"}


@pytest.mark.parametrize(
    ("text", "right", "wrong", "expected"),
    [
        (DDP, "batch_size: 4,", "batch_size: 4, server: emu.server,", "an all_reduce has no"),
        (DDP, "[1, 8], trials", "[1, 8], held_out: [8], trials", r"held_out: \[8\] are among"),
    ],
)
def test_what_does_not_fit_together_is_one_line(
    text: str, right: str, wrong: str, expected: str, tmp_path: Path
) -> None:
    assert right in text
    with pytest.raises(BadInput, match=expected) as caught:
        needs(study(tmp_path, text.replace(right, wrong, 1)))
    assert "\n" not in str(caught.value)


def test_a_study_that_only_profiles_needs_its_probes_of_all_that_they_concern(
    tmp_path: Path,
) -> None:
    whole = study(tmp_path, ONLY_PROFILES)
    assert [(need.title, need.purpose) for need in needs(whole)] == [
        ("probe links, 200 Mb/s", "profile"),
        ("probe contention, 200 Mb/s, emu.native.c25", "profile"),
        ("profile small_cnn 64px b4, 200 Mb/s, W=1", "profile"),
        ("profile alexnet 64px b4, 200 Mb/s, W=1", "profile"),
    ]


def test_what_is_asked_of_a_probe_that_judges_too_is_seen_where_nothing_is_judged(
    tmp_path: Path,
) -> None:
    text = ONLY_PROFILES.replace("  links: {", "  tf_throughput: {windows: 2}\n  links: {")
    throughputs = of_probe(study(tmp_path, text), "tf_throughput")
    assert len(throughputs) == 4, "each network with one worker and with two"
    assert all(need.profiles for need in throughputs)
