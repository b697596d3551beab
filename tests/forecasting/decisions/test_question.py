"""Every way to run a job."""

from datetime import UTC, datetime

import pytest

from forecasting.decisions.question import (
    JobQuestion,
    ProfileFacts,
    batch_sizes_of,
    curves_of,
    node_counts,
    profile_facts,
)
from forecasting.history_scope import VisibleRun
from tests.made_run import ddp_curve
from warehouse.records import BadInput
from warehouse.requirements import Subject

KNOWN = ProfileFacts(32, 200.0, ("pytorch", "tensorflow"))
TYPE = "emu.avx512.s15"


def asked(
    known: ProfileFacts = KNOWN, capacity: int = 4, **fields: object
) -> set[tuple[object, ...]]:
    """Return framework, servers, batch of a device and workers of each scenario."""
    question = JobQuestion.model_validate({"dnn": "small_cnn", "samples": 1} | fields)
    return {
        (curve.framework, curve.servers if curve.server else 0, curve.batch_size, workers)
        for curve in curves_of(question, known, {TYPE: capacity})
        for workers in curve.workers
    }


def test_a_global_batch_is_divided_among_devices() -> None:
    only = ProfileFacts(32, 200.0, ("pytorch",))
    assert asked(only, global_batch=12) == {("pytorch", 0, 12 // n, n) for n in (1, 2, 3, 4)}
    assert asked(only, global_batch=10) == {("pytorch", 0, 10 // n, n) for n in (1, 2)}
    assert asked(only, global_batch=12, devices_per_node=2) == {
        ("pytorch", 0, 6 // n, n) for n in (1, 2, 3)
    }


def test_batch_sizes_of_all_ways_to_run_a_job() -> None:
    question = JobQuestion(dnn="small_cnn", samples=1, global_batch=12)
    assert batch_sizes_of(question, {TYPE: 4, "other": 2}) == (12, 6, 4, 3)
    # Of twenty nodes, three are not asked about; of three they are.
    assert set(batch_sizes_of(question, {TYPE: 20, "other": 3})) == {12, 6, 4, 3}
    each = JobQuestion(dnn="small_cnn", samples=1, batch_size=5)
    assert batch_sizes_of(each, {TYPE: 4}) == (5,)
    two = JobQuestion(dnn="small_cnn", samples=1, global_batch=7, devices_per_node=2)
    with pytest.raises(BadInput, match="nothing on offer divides a global batch of 7"):
        batch_sizes_of(two, {TYPE: 4})


def test_recipes_are_asked_about_as_they_are_and_of_pytorch_alone() -> None:
    recipe = {"precision": "bf16", "optimizer": "AdamW", "accumulate": 2, "sequence_length": 16}
    question = JobQuestion.model_validate({"dnn": "own-1", "samples": 1, "batch_size": 8, **recipe})
    known = ProfileFacts(0, 200.0, ("pytorch", "tensorflow"))
    (curve,) = curves_of(question, known, {TYPE: 2})
    load = curve.scenario(2, "loopback").workload
    assert (load.framework, load.recipe) == ("pytorch", "bfloat16, adamw, 2 passes a step")
    assert load.sequence_length == 16
    only = ProfileFacts(32, 200.0, ("tensorflow",))
    with pytest.raises(BadInput, match="TensorFlow's networks train in float32 by plain SGD"):
        asked(only, batch_size=8, precision="bf16")


def test_what_was_asked_before_there_were_recipes_is_the_same() -> None:
    plain = JobQuestion(dnn="small_cnn", samples=1, batch_size=8).model_dump(mode="json")
    assert not {"precision", "optimizer", "accumulate", "sequence_length"} & plain.keys()
    other = JobQuestion(dnn="small_cnn", samples=1, batch_size=8, optimizer="adam")
    assert other.model_dump(mode="json") == {**plain, "optimizer": "adam"}


def test_one_gpu_is_asked_about_alone_and_as_the_only_replica() -> None:
    question = JobQuestion(dnn="small_cnn", samples=1, global_batch=8)
    only = ProfileFacts(32, 200.0, ("pytorch",))
    curves = curves_of(question, only, {"gpu.h100": 2, TYPE: 1})
    assert [
        (curve.strategy, curve.worker, curve.workers, curve.batch_size) for curve in curves
    ] == [
        ("all_reduce", ("gpu.h100",), (1,), 8),
        ("all_reduce", ("gpu.h100",), (2,), 4),
        ("single", ("gpu.h100",), (1,), 8),
        ("all_reduce", (TYPE,), (1,), 8),
    ]


def test_servers_are_counted_too() -> None:
    jobs = asked(batch_size=8, server="emu.server", servers=2, capacity=2)
    synchronous = {(name, 0, 8, n) for name in ("pytorch", "tensorflow") for n in (1, 2)}
    assert jobs == synchronous | {("tensorflow", m, 8, n) for m in (1, 2) for n in (1, 2)}


def test_many_nodes_are_asked_about_in_powers_of_two() -> None:
    assert node_counts(16) == tuple(range(1, 17))
    assert node_counts(100) == (1, 2, 4, 8, 16, 32, 64, 100)
    assert node_counts(64) == (1, 2, 4, 8, 16, 32, 64)


def run(image_size: int, link_mbps: float) -> VisibleRun:
    """Return a run about small_cnn."""
    curve = ddp_curve(TYPE, [2], image_size=image_size, link_mbps=link_mbps)
    scenario = curve.scenario(2, "emulated")
    about = Subject("torch_throughput", scenario, link_mbps)
    return VisibleRun("r", about, ("s", 1), "emulated", "h", datetime(2030, 1, 1, tzinfo=UTC))


def test_what_a_question_does_not_say_is_what_was_profiled() -> None:
    question = JobQuestion(dnn="small_cnn", samples=1, framework="pytorch")
    assert profile_facts(question, [run(32, 200)]) == ProfileFacts(32, 200, ("pytorch",))
    larger = question.model_copy(update={"image_size": 64, "link_mbps": 500})
    assert profile_facts(larger, [run(32, 200)]) == ProfileFacts(64, 500, ("pytorch",))


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([run(32, 200), run(64, 200)], "profiled at 32 and 64 px: say which with --image-size"),
        ([run(32, 200), run(32, 500)], "links of 200 and 500 Mb/s were probed: say which with --l"),
        ([], "small_cnn: no run of it tells the side of its images; give --image-size"),
    ],
)
def test_what_was_profiled_in_several_ways_has_to_be_said(
    runs: list[VisibleRun], said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        profile_facts(JobQuestion(dnn="small_cnn", samples=1), runs)
