"""Links of curves, which only devices that exchange gradients have, and how they train."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from profilers.record_file import fault
from studies.curve import Curve
from studies.study import Study, read_study
from tests.studies.test_study import told
from tests.synthetic import SYNCHRONOUS, write_study
from warehouse import limits

ALONE = {
    "dnn": "resnet18",
    "framework": "pytorch",
    "image_size": 64,
    "batch_size": 8,
    "worker": "emu.avx512.s15",
}

TENSORFLOW = {"framework": "tensorflow", "strategy": "all_reduce", "workers": 1}


def test_one_device_has_no_links() -> None:
    """Several exchange gradients, and a worker with servers talks to them."""
    fields = {
        "dnn": "resnet18", "framework": "pytorch", "strategy": "all_reduce", "image_size": 64,
        "batch_size": 8, "worker": "emu.avx512.s15", "workers": 1,
    }  # fmt: skip
    alone = Curve.model_validate(fields)
    assert alone.scenario(1, "emulated").link_mbps is None
    assert alone.profiled("emulated") == alone.scenario(1, "emulated")
    linked = Curve.model_validate(fields | {"link_mbps": 500})
    assert linked.scenario(1, "emulated").link_mbps == 500
    assert linked.profiled("emulated") == alone.profiled("emulated")
    for changes in ({"workers": [1, 2]}, {"devices_per_node": 2}):
        with pytest.raises(ValidationError, match="link_mbps: missing, and it has no default"):
            Curve.model_validate(fields | changes)


@pytest.mark.parametrize(
    ("given", "strategy"),
    [
        ({}, "single"),
        ({"strategy": "single"}, "single"),
        ({"strategy": "single", "workers": 1}, "single"),
        ({"strategy": "all_reduce", "workers": 1}, "all_reduce"),
    ],
)
def test_a_device_is_a_replica_only_if_workers_or_a_strategy_are_named(
    given: dict[str, object], strategy: str
) -> None:
    curve = Curve.model_validate(ALONE | given)
    scenario = curve.scenario(1, "emulated")
    assert (curve.strategy, curve.workers, scenario.link_mbps) == (strategy, (1,), None)
    assert scenario.strategy.kind == strategy
    assert curve.profiled("emulated") == scenario
    assert curve.metric.name == "step_time_s"


@pytest.mark.parametrize(
    ("written", "recipe"),
    [
        ({"precision": "bf16"}, {"precision": "bfloat16"}),
        ({"precision": "half", "worker": "gpu.h100"}, {"precision": "float16"}),
        ({"precision": "TF32", "worker": "gpu.h100"}, {"precision": "tf32"}),
        ({"precision": "fp32", "optimizer": "SGD", "accumulate": 1}, {}),
        ({"optimizer": "AdamW", "accumulate": 4}, {"optimizer": "adamw", "accumulate": 4}),
    ],
)
def test_recipes_are_spelt_as_people_do(
    written: dict[str, object], recipe: dict[str, object]
) -> None:
    curve = Curve.model_validate(ALONE | written)
    assert curve.recipe == recipe
    load = curve.scenario(1, "emulated").workload
    assert {name: getattr(load, name) for name in recipe} == recipe
    assert bool(load.recipe) == bool(recipe)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"precision": "fp16"}, "precision: float16 is of GPUs, and emu.avx512.s15 has none; on"),
        ({"compiled": True}, "compiled: default is of GPUs, and emu.avx512.s15 has none"),
        ({"optimizer": "adamw_8bit"}, "optimizer: adamw_8bit is of GPUs, and emu.avx512.s15 has"),
        ({"compiled": "fast"}, "compiled: input should be False, 'default' or 'reduce-overhead'"),
        ({"sequence_length": 128}, "sequence_length: resnet18 sees images of 64 px"),
        ({"strategy": "single", "workers": 2}, "strategy: single is one device of one node type;"),
        ({"strategy": "single", "link_mbps": 5}, "link_mbps: a single device has no link; leave"),
        (TENSORFLOW | {"precision": "bf16"}, "precision: TensorFlow's networks train in float32"),
        ({"framework": "tensorflow", "strategy": "single"}, "strategy: single is of PyTorch; one"),
        ({"link_mbps": 500}, "workers: missing, and it has no default where a speed of links is"),
    ],
)
def test_what_no_device_trains_is_one_line(given: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError) as error:
        Curve.model_validate(ALONE | given)
    line = fault(error.value, Curve)
    assert line.startswith(told), line
    assert "\n" not in line


HEAD = "name: paper\n"
ONE = (
    "dnn: small_cnn, image_size: 16, batch_size: 4, worker: emu.native.c25, server: emu.server, "
    "link_mbps: 200, workers: [1, 2]"
)
ALEXNET = (
    "{dnn: alexnet, strategy: all_reduce, image_size: 64, batch_size: 4, worker: emu.native.c25, "
    "link_mbps: 800, workers: [2, 3]}"
)


def text(*tests: str, train: tuple[str, ...] = ()) -> str:
    """Return a study's text with these templates."""
    lines = [HEAD.strip()]
    for name, templates in (("train", train), ("test", tests)):
        if templates:
            lines += [f"{name}:", *(f"  - {{{template}}}" for template in templates)]
    return "\n".join(lines) + "\n"


def study(folder: Path, *tests: str) -> Study:
    return read_study(write_study(folder, text(*tests)))


def shown(curve: Curve) -> tuple[object, ...]:
    return curve.dnn, curve.batch_size, " + ".join(curve.worker), curve.workers


def test_lists_multiply_and_the_last_one_runs_fastest(tmp_path: Path) -> None:
    grid = ONE.replace("small_cnn", "[small_cnn, vgg11]").replace("size: 4", "size: [8, 4]")
    paper = study(tmp_path, grid, ONE.replace("small_cnn", "alexnet"))
    assert [shown(curve) for curve in paper.curves] == [
        ("small_cnn", 8, "emu.native.c25", (1, 2)),
        ("small_cnn", 4, "emu.native.c25", (1, 2)),
        ("vgg11", 8, "emu.native.c25", (1, 2)),
        ("vgg11", 4, "emu.native.c25", (1, 2)),
        ("alexnet", 4, "emu.native.c25", (1, 2)),
    ]
    assert [len(template) for template in paper.test] == [4, 1]
    assert [paper.place_of(curve) for curve in paper.curves] == ["test[0]"] * 4 + ["test[1]"]


def test_a_list_of_workers_is_one_curve_and_a_list_of_types_is_several(tmp_path: Path) -> None:
    many = "worker: [emu.native.c25, emu.native.c25 + emu.native.c15, emu.native.c15]"
    grid = ONE.replace("worker: emu.native.c25", many)
    paper = study(tmp_path, grid.replace("[1, 2]", "[2, 3]"))
    assert [shown(curve)[2:] for curve in paper.curves] == [
        ("emu.native.c25", (2, 3)),
        ("emu.native.c25 + emu.native.c15", (2, 3)),
        ("emu.native.c15", (2, 3)),
    ]
    mixed = paper.curves[1].scenario(2, "emulated")
    assert [(group.node_type, group.count) for group in mixed.worker_groups] == [
        ("emu.native.c25", 1),
        ("emu.native.c15", 1),
    ]
    again = told(tmp_path, text(grid))
    assert again == "test[0] repeats small_cnn 16px b4, 200 Mb/s, W=1 of test[0]", "one of a mix"


def test_train_comes_first_and_is_not_judged(tmp_path: Path) -> None:
    paper = read_study(write_study(tmp_path, SYNCHRONOUS))
    assert [(curve.dnn, curve.is_judged) for curve in paper.curves] == [
        ("alexnet", False),
        ("small_cnn", True),
    ]
    assert [paper.place_of(curve) for curve in paper.curves] == ["train[0]", "test[0]"]
    with pytest.raises(ValueError, match="is not of study paper"):
        paper.place_of(paper.curves[0].model_copy(update={"dnn": "vgg11"}))


def test_a_grid_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LISTED", 8)
    batches = list(range(1, limits.LISTED // 2 + 2))
    grid = ONE.replace("size: 4", f"size: {batches}")
    assert len(study(tmp_path, grid).curves) == len(batches)
    wrong = grid.replace("small_cnn", "[small_cnn, vgg11]")
    assert told(tmp_path, text(wrong)) == (
        f"test[0]: its lists make {2 * len(batches)} curves; {limits.LISTED} at most, so divide "
        "them"
    )


def test_a_scenario_is_of_train_or_of_test(tmp_path: Path) -> None:
    wrong = SYNCHRONOUS.replace("test:\n", f"test:\n  - {ALEXNET}\n")
    assert told(tmp_path, wrong) == (
        "test[0]: alexnet 64px b4, 800 Mb/s, all-reduce, W=2 (2 emu.native.c25) is in train[0] "
        "too, where fits would see it"
    )
    other = wrong.replace("[2, 3]", "3")
    assert len(read_study(write_study(tmp_path, other)).curves) == 3
