"""Probe `torch_operations`: the operators of a PyTorch training step on one processor.

As `tf_operations` does for TensorFlow: at full speed first, then steps at the node's share. What is
timed are the operators below automatic differentiation, which do not include each other, as
`networks.pytorch_graph` names them; PyTorch's profiler times a host's operators with all those that
they call. The traced step is the sum of operators alone.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

import polars as pl
from pydantic import Field

from networks.figures import figures
from profilers.nodes.programs import STEP_TIMEOUT_S, Message, NodeProgram, cluster_nodes
from profilers.nodes.torch_network import TrainedNetwork
from profilers.operation_profile import WARM_UP_STEPS, operation_runs, operation_tables, time_steps
from profilers.probe import Measured, PlannedRun, Probe, Session, one_by_one
from profilers.scenarios import step_or_guess_s, trains_pytorch
from warehouse import limits
from warehouse.records import ProbeFailed, Record, Scenario

FREED = 0.75
"""Of the processor time of a step at the node's share, that one takes at full speed."""
TIMED_S = 4e-4
"""Seconds by which timing its operators makes a step longer, for each node of the graph; both as in
twelve runs of study reference_ceer_pytorch, of 68 s in the mean; 69 s are expected."""


def _measure(session: Session, need: PlannedRun) -> Measured:
    """Time the operators of steps of one device that trains alone, at full speed."""
    timed_steps, untimed_steps = need.settings["timed_steps"], need.settings["untimed_steps"]
    node, scenario = session.cluster.of_role("worker")[0], need.scenario
    with NodeProgram(
        session.cluster,
        node,
        scenario.label,
        "profilers.torch_operations.program",
        "later",
        network=TrainedNetwork.of(scenario, wrapped=False).model_dump(mode="json"),
    ) as job:

        def ask(event: str, do: str, steps: int) -> Message:
            return job.answer(event, STEP_TIMEOUT_S * steps, do=do, steps=steps)

        parameter_count = ask("trained", "train", 1)["parameter_count"]
        timed = time_steps(
            session,
            scenario,
            timed_steps,
            untimed_steps,
            run=lambda steps: list(ask("trained", "train", steps)["seconds"]),
            trace=partial(ask, "timed", "time_operators"),
            confine=lambda: job.confine(node.name),
        )
    operators = timed.traces[0]["operators"]
    if not all(trace["operators"] for trace in timed.traces):
        raise ProbeFailed(
            f"steps of {scenario.label} had different operators: a network that branches on its "
            "input has no one step to profile"
        )
    times_us = [us for trace in timed.traces for us in trace["times_us"]]
    tables = {
        **operation_tables(
            scenario,
            parameter_count,
            [_durations(times_us)],
            timed,
            held_s=fmean(timed.held),
            free_s=fmean(timed.free),
            traced_s=fmean(map(sum, times_us)) / 1e6,
        ),
        **operator_tables(operators),
        # It trains on the processor, whatever else the node has.
        "cluster_node": cluster_nodes({node: {**job.ready, "devices": []}}),
    }
    config = {
        "timed_steps": timed_steps,
        "untimed_steps": untimed_steps,
        "warm_up_steps": WARM_UP_STEPS,
    }
    return Measured(tables, config)


def operator_tables(operators: Sequence[Mapping[str, Any]]) -> dict[str, pl.DataFrame]:
    """Return tables operation and operation_shape.

    Args:
        operators: `networks.operation_graph.GraphOperation` of each, as a dictionary.
    """
    rows = pl.DataFrame(operators, infer_schema_length=None).with_row_index("operation")
    cpu = rows.with_columns(
        pl.lit("worker").alias("resource"),
        pl.lit("cpu").alias("device"),
        pl.lit(None, pl.Int16).alias("server"),
        pl.lit(None, pl.Int64).alias("size_bytes"),
    )
    columns = "operation name type resource server size_bytes device input_bytes output_bytes"
    return {
        "operation": cpu.select(columns.split()),
        "operation_shape": rows.select("operation", "inputs", "outputs", "attributes"),
    }


def _durations(times_us: Sequence[Sequence[float]]) -> pl.DataFrame:
    rows = [
        (operation, step, us)
        for step, times in enumerate(times_us)
        for operation, us in enumerate(times)
    ]
    return pl.DataFrame(rows, schema=["operation", "step", "us"], orient="row")


class Settings(Record):
    """How many steps are timed, and how many are run as they are beside them.

    With `test`, operations of test scenarios are timed too: they judge what is forecast of
    operations, and fits never see them.
    """

    timed_steps: int = Field(default=200, ge=2, le=limits.REPEATS)
    untimed_steps: int = Field(default=20, ge=2, le=limits.REPEATS)
    test: bool = False


def _expected_s(settings: Settings, scenario: Scenario) -> float:
    """Return about what steps take, at full speed and at the node's share."""
    step_s = step_or_guess_s(scenario)
    free_s = FREED * step_s * (scenario.nodes[0].cpu_share or 1.0)
    free_steps = WARM_UP_STEPS + settings.timed_steps + settings.untimed_steps
    size = figures(scenario.workload.dnn, scenario.workload.image_size)
    timing_s = 0.0 if size is None else TIMED_S * size.nodes
    return (
        free_steps * free_s
        + settings.timed_steps * timing_s
        + (WARM_UP_STEPS + settings.untimed_steps) * step_s
    )


PROBE = Probe(
    name="torch_operations",
    what="Operators of one PyTorch device that trains alone, at full speed, and its steps.",
    kind="pytorch",
    tables=("operation_time", "operation", "operation_shape", "dnn", "cluster_node", "sample"),
    settings=Settings,
    needs=operation_runs("torch_operations", _expected_s),
    run=one_by_one(_measure),
    concerns=trains_pytorch,
)
