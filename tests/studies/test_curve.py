"""Links of curves, which only devices that exchange gradients have, and how they train."""

import pytest
from pydantic import ValidationError

from profilers.record_file import fault
from studies.curve import Curve, expand

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
        ({"precision": "torch.bfloat16"}, {"precision": "bfloat16"}),
        ({"precision": "half", "worker": "gpu.h100"}, {"precision": "float16"}),
        ({"precision": "fp16", "worker": "gpu.h100"}, {"precision": "float16"}),
        ({"precision": "TF32", "worker": "gpu.h100"}, {"precision": "tf32"}),
        ({"precision": "fp32", "optimizer": "SGD", "accumulate": 1}, {}),
        ({"optimizer": "AdamW", "accumulate": 4}, {"optimizer": "adamw", "accumulate": 4}),
        ({"memory_format": "channels_last"}, {"memory_format": "channels_last"}),
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


def test_recipes_make_a_grid() -> None:
    grid = {"precision": ["fp32", "bf16"], "optimizer": ["sgd", "adamw"]}
    found = expand(ALONE | grid, judged=True)
    assert isinstance(found, tuple)
    assert [one.scenario(1, "loopback").workload.recipe for one in found] == [
        "", "adamw", "bfloat16", "bfloat16, adamw",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"precision": "int8"}, "precision: input should be 'float32', 'tf32', "),
        ({"precision": "fp16"}, "precision: float16 is of GPUs, and emu.avx512.s15 has none; on"),
        ({"precision": "tf32"}, "precision: tf32 is of GPUs, and emu.avx512.s15 has none; on"),
        ({"optimizer": "lamb"}, "optimizer: input should be 'sgd', 'momentum', 'adam' or 'adamw'"),
        ({"compiled": True}, "compiled: a step that torch.compile made is not known, and no eager"),
        ({"accumulate": 0}, "accumulate: input should be greater than or equal to 1, found 0"),
        ({"sequence_length": 128}, "sequence_length: resnet18 sees images of 64 px"),
        ({"strategy": "single", "workers": 2}, "strategy: single is one device of one node type;"),
        ({"strategy": "single", "link_mbps": 5}, "link_mbps: a single device has no link; leave"),
        ({"strategy": "single", "server": "emu.server"}, "strategy single has no parameter"),
        (TENSORFLOW | {"precision": "bf16"}, "precision: TensorFlow's networks train in float32"),
        ({"framework": "tensorflow", "strategy": "single"}, "strategy: single is of PyTorch; one"),
        ({"link_mbps": 500}, "workers: missing, and it has no default where a speed of links is"),
        (
            {"devices_per_node": 4},
            "workers: missing, and it has no default where a number of devices per node is given; "
            "say how many nodes train together (1: one alone), or leave both out for a single",
        ),
        ({"strategy": "all_reduce"}, "workers: missing, and it has no default where a strategy is"),
    ],
)  # fmt: skip
def test_what_no_device_trains_is_one_line(given: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError) as error:
        Curve.model_validate(ALONE | given)
    line = fault(error.value, Curve)
    assert line.startswith(told), line
    assert "\n" not in line
