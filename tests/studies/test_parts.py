"""What each kind of study runs, who may see it, and what predictors of a curve are fitted to."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from studies.parts import Part, judged_parts, parts

from studies.study import Study, read_study
from tests.synthetic import DDP, STUDY, SYNCHRONOUS, landed, seen_of, write_study
from warehouse.records import BadInput

MIXED = STUDY.replace("worker: emu.native.c25,", "worker: [emu.native.c25, emu.native.c15],", 1)


def study(folder: Path, text: str) -> Study:
    return read_study(write_study(folder, text))


def names(found: Sequence[Part]) -> list[str]:
    return [part.name for part in found]


def test_data_parallel_jobs_share_links_all_reduces_and_passes(tmp_path: Path) -> None:
    assert names(parts(study(tmp_path, DDP), "emulated")) == [
        "probe links, 800 Mb/s",
        "probe allreduce, 800 Mb/s, emu.native.c25, devices per node 1, world size 2",
        "probe allreduce, 800 Mb/s, emu.native.c25, devices per node 1, world size 3",
        "probe allreduce, 800 Mb/s, emu.native.c25 + emu.avx2.c25, devices per node 1, world size "
        "2",
        "probe allreduce, 800 Mb/s, emu.native.c25 + emu.avx2.c25, devices per node 1, world size "
        "3",
        "profile resnet18 32px b8, unshaped, all-reduce, W=1 (1 emu.native.c25)",
        "profile resnet18 32px b8, unshaped, all-reduce, W=1 (1 emu.avx2.c25)",
        "measure resnet18 32px b4, 800 Mb/s, all-reduce, W=2 (2 emu.native.c25)",
        "measure resnet18 32px b4, 800 Mb/s, all-reduce, W=3 (3 emu.native.c25)",
        "measure resnet18 32px b8, 800 Mb/s, all-reduce, W=3 (1 emu.avx2.c25 + 2 emu.native.c25)",
    ]


def test_slowdown_is_probed_with_the_networks_that_may_be_seen(tmp_path: Path) -> None:
    text = DDP.replace("watched_trials: 2", "watched_trials: 2, slowdown_trials: 4")
    text = text.replace("batch_size: 8,", "batch_size: 8, fitted: true,")
    whole = study(tmp_path, text)
    found = [part for part in parts(whole, "emulated") if part.probe == "slowdown"]
    assert [part.scenario.nodes[0].node_type for part in found if part.scenario] == [
        "emu.native.c25",
        "emu.avx2.c25",
    ]
    assert {part.scenario.strategy.workers for part in found if part.scenario} == {3}
    assert [part for part in seen_of(whole.curves[0], whole, "emulated") if part in found] == [
        found[0]
    ]
    assert len(list(judged_parts(whole, "emulated"))) == 3


def test_held_out_batches_judge_profiles_and_are_not_seen(tmp_path: Path) -> None:
    whole = study(tmp_path, DDP.replace("[1, 8], trials", "[1, 8], held_out: [2, 4], trials"))
    found = [part for part in parts(whole, "emulated") if part.probe == "torch_compute"]
    assert [part.profiles for part in found] == [True, True, False, False]
    assert names(found[2:]) == [
        "time held-out batches, resnet18 32px b4, unshaped, all-reduce, W=1 (1 emu.native.c25)",
        "time held-out batches, resnet18 32px b4, unshaped, all-reduce, W=1 (1 emu.avx2.c25)",
    ]
    for curve in whole.curves:
        assert not set(seen_of(curve, whole, "emulated")) & set(found[2:])


def test_the_largest_batch_is_searched_for_where_asked(tmp_path: Path) -> None:
    text = DDP.replace("watched_trials: 2", "watched_trials: 2, largest_up_to: 64")
    whole = study(tmp_path, text)
    searched = [part for part in parts(whole, "emulated") if part.probe == "torch_memory"]
    profiled = [part for part in parts(whole, "emulated") if part.probe == "torch_compute"]
    assert [part.scenario for part in searched] == [part.scenario for part in profiled]
    assert not {part.name for part in searched} & {part.name for part in profiled}
    assert [part for part in seen_of(whole.curves[0], whole, "emulated") if part in searched]
    assert not [one for one in parts(study(tmp_path, DDP), "emulated") if one in searched]


def test_nodes_of_several_types_are_taken_in_turn(tmp_path: Path) -> None:
    mixed = study(tmp_path, DDP).curves[1]
    assert [(group.node_type, group.count) for group in mixed.nodes(3)] == [
        ("emu.native.c25", 2),
        ("emu.avx2.c25", 1),
    ]
    assert [group.node_type for group in mixed.nodes(1)] == ["emu.native.c25"]


def test_all_reduces_are_told_apart_by_who_took_part(tmp_path: Path) -> None:
    found = [part for part in parts(study(tmp_path, DDP), "emulated") if part.probe == "allreduce"]
    assert len(found) == 4
    for part in found:
        assert [other for other in found if other.is_done_by(landed(part))] == [part]


def test_data_parallel_predictors_see_the_types_of_the_job(tmp_path: Path) -> None:
    whole = study(tmp_path, DDP)
    single, mixed = (names(seen_of(curve, whole, "emulated")) for curve in whole.curves)
    assert [name for name in single if "avx2" in name] == []
    assert len([name for name in mixed if name.startswith("profile")]) == 2
    assert [len([name for name in of if name.startswith("probe")]) for of in (single, mixed)] == [
        3,
        5,
    ]


def test_synchronous_jobs_judge_unless_they_are_fitted(tmp_path: Path) -> None:
    whole = study(tmp_path, SYNCHRONOUS)
    found = [(part.name, part.probe, part.purpose) for part in parts(whole, "emulated")]
    alexnet, small = "alexnet 64px b4", "small_cnn 24px b4"
    assert found == [
        (
            f"profile {alexnet}, unshaped, all-reduce, W=1 (1 emu.native.c25)",
            "tf_operations",
            "profile",
        ),
        (f"measure {alexnet}, 800 Mb/s, all-reduce, W=1 (1 emu.native.c25)", "tf_sync", "profile"),
        (f"measure {alexnet}, 800 Mb/s, all-reduce, W=2 (2 emu.native.c25)", "tf_sync", "profile"),
        (
            f"profile {small}, unshaped, all-reduce, W=1 (1 emu.native.c25)",
            "tf_operations",
            "measurement",
        ),
        (
            f"measure {small}, 800 Mb/s, all-reduce, W=2 (2 emu.native.c25)",
            "tf_sync",
            "measurement",
        ),
    ]
    (judged,) = judged_parts(whole, "emulated")
    assert judged.curve.dnn == "small_cnn"
    seen = seen_of(judged.curve, whole, "emulated")
    assert {part.curve.dnn for part in seen} == {"alexnet"}


def test_pytorch_by_operations_is_profiled_and_judged_as_tensorflow(tmp_path: Path) -> None:
    by_operations = SYNCHRONOUS.replace(
        "strategy:", "framework: pytorch, by_operations: true, strategy:"
    ).replace("measure: {windows: 2, window_s: 1}", "iterate: {iterations: 20}")
    whole = study(tmp_path, by_operations)
    assert whole.kind == "ddp_operations"
    assert [(part.probe, part.purpose) for part in parts(whole, "emulated")] == [
        ("torch_operations", "profile"),
        *[("torch_throughput", "profile")] * 2,
        ("torch_operations", "measurement"),
        ("torch_throughput", "measurement"),
    ]
    (judged,) = judged_parts(whole, "emulated")
    seen = seen_of(judged.curve, whole, "emulated")
    assert {part.curve.dnn for part in seen} == {"alexnet"}


def test_mixed_workers_are_profiled_type_by_type(tmp_path: Path) -> None:
    whole = study(tmp_path, MIXED)
    traced = [part.scenario for part in parts(whole, "emulated") if part.probe == "tf_trace"]
    assert [one.nodes[0].node_type for one in traced if one][:2] == [
        "emu.native.c25",
        "emu.native.c15",
    ]
    seen = seen_of(whole.curves[0], whole, "emulated")
    assert [part.scenario for part in seen if part.probe == "tf_trace"] == traced[:2]


@pytest.mark.parametrize(
    ("text", "right", "wrong", "expected"),
    [
        (DDP, "batch_size: 4,", "batch_size: 4, server: emu.server,", "an all_reduce has no"),
        (DDP, "allreduce:", "# allreduce:", "allreduce: missing"),
        (DDP, "links:", "# links:", "links: missing"),
        (DDP, "[1, 8], trials", "[1, 8], held_out: [8], trials", r"held_out: \[8\] are among"),
        (DDP, "[1, 8], trials", "[1, 8], held_out: [0], trials", r"compute\.held_out\[0\]: "),
        (STUDY, "links:", "# links:", "links: missing"),
        (STUDY, "server: emu.server,", "", "server: missing; name the node type"),
        (MIXED, "emu.native.c15]", "emu.native.c25]", r"jobs\[0\]\.worker: should name each"),
        (
            SYNCHRONOUS,
            "fitted: true",
            "framework: pytorch",
            r"jobs\[1\] is synchronous, jobs\[0\] is ddp",
        ),
        (STUDY, "batch_size: 4,", "batch_size: 4, fitted: true,", "async_parameter_server is"),
    ],
)
def test_what_does_not_fit_together_is_one_line(
    text: str, right: str, wrong: str, expected: str, tmp_path: Path
) -> None:
    assert right in text
    with pytest.raises(BadInput, match=expected) as caught:
        study(tmp_path, text.replace(right, wrong, 1))
    assert "\n" not in str(caught.value)


def test_slowdown_is_probed_with_the_nodes_of_any_job_of_the_round(tmp_path: Path) -> None:
    text = DDP.replace("watched_trials: 2", "watched_trials: 2, slowdown_trials: 4")
    whole = study(tmp_path, text.replace("batch_size: 4,", "batch_size: 4, fitted: true,"))
    fewer = whole.curves[0].model_copy(update={"workers": (2,)})
    later = whole.with_curves((fewer, *whole.curves[1:]))
    for one in (whole, later):
        (found,) = (part for part in parts(one, "emulated") if part.probe == "slowdown")
        assert found.scenario is not None and found.scenario.strategy.workers == 3
