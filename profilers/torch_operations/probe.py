"""Probe `torch_operations`: the operators of a PyTorch training step on one processor.

As `tf_operations` does for TensorFlow: at full speed first, then steps at the node's share. What is
timed are the operators below automatic differentiation, which do not include each other, as
`networks.pytorch_graph` names them; PyTorch's profiler times a host's operators with all those that
they call.
"""

import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, cast

import polars as pl
from pydantic import Field

from networks.figures import figures
from profilers import clock
from profilers.clusters import Cluster
from profilers.nodes.programs import BaseJob, Message
from profilers.nodes.torch_jobs import STEP_TIMEOUT_S, check_single
from profilers.nodes.torch_program import START_TIMEOUT_S, Facts, cluster_nodes, environment
from profilers.operation_tables import dnn_row, operation_time, plan_operation_runs, step_samples
from profilers.probe import (
    PlannedRun,
    Probe,
    ProbeResult,
    RequestedScenarios,
    RunContext,
    Setting,
    finished_run,
    one_by_one,
)
from profilers.scenarios import step_or_guess_s, trains_pytorch
from profilers.steady.host import Patience
from profilers.steady.hostlock import host_lock
from profilers.torch_compute.program import ComputeConfig
from warehouse import limits
from warehouse.records import ProbeFailed, Record, Scenario

WARM_UP_STEPS = 5
PIECE_STEPS = 10
"""Steps that are measured again together if something disturbs them."""
FREED = 0.75
"""Of the processor time of a step at the node's share, that one takes at full speed."""
TIMED_S = 4e-4
"""Seconds by which timing its operators makes a step longer, for each node of the graph; both as in
twelve runs of study reference_ceer_pytorch, of 68 s in the mean; 69 s are expected."""


def profile(
    cluster: Cluster,
    scenario: Scenario,
    context: RunContext,
    *,
    timed_steps: int,
    untimed_steps: int,
    progress: Callable[[str], None] = lambda _: None,
) -> ProbeResult:
    """Time the operators of steps of one device that trains alone.

    Args:
        cluster: one worker.
        scenario: all_reduce with framework pytorch and W = 1.
        context: study and round.
        timed_steps: steps whose operators are timed, at full speed.
        untimed_steps: steps as they are at full speed, in between; and as many at the node's share.
        progress: told what runs now.

    Returns:
        A run with tables `operation` (device `cpu`), `operation_shape`, `operation_time`, `dnn`,
        `cluster_node` and `sample`: `step_time_s` at the node's share, `unconfined_step_time_s`,
        `traced_step_time_s` (the sum of operators alone), `stolen_cpu_fraction`.

    Raises:
        ProbeFailed: the job failed.
        BadInput: W is not 1, or another strategy or framework.
    """
    check_single(scenario)
    started_at = clock.now()
    dnn = scenario.workload.dnn
    patience = Patience(cluster.cpu_times)
    with host_lock(progress), OperatorsJob(cluster, scenario) as job:
        progress(f"profile {dnn}: operators of {timed_steps} steps")
        job.train(WARM_UP_STEPS)
        pieces = []
        for first in range(0, timed_steps, PIECE_STEPS):
            last = min(first + PIECE_STEPS, timed_steps)
            count = [round(untimed_steps * step / timed_steps) for step in (first, last)]
            timed = partial(_piece, job, count[1] - count[0], last - first)
            pieces.append(patience.measure_undisturbed(timed))
        progress(f"profile {dnn}: {untimed_steps} steps at the node's share")
        job.confine()
        job.train(WARM_UP_STEPS)
        held = patience.pieces(job.train, untimed_steps, PIECE_STEPS)
    settings: dict[str, Setting] = {
        "timed_steps": timed_steps,
        "untimed_steps": untimed_steps,
        "warm_up_steps": WARM_UP_STEPS,
    }
    run = finished_run("torch_operations", cluster, scenario, context, started_at, settings)
    operator_times = [piece.value for piece in pieces]
    times_us = [us for piece in operator_times for us in piece.times_us]
    stolen = [*(piece.stolen for piece in pieces), *(piece.stolen for piece in held)]
    tables = {
        **operator_tables(operator_times[0].operators),
        "operation_time": operation_time([_durations(times_us)]),
        "dnn": dnn_row(scenario, job.parameter_count),
        "cluster_node": job.cluster_node,
        "sample": step_samples(
            statistics.fmean(step_s for piece in held for step_s in piece.value),
            statistics.fmean(step_s for piece in operator_times for step_s in piece.free_s),
            statistics.fmean(map(sum, times_us)) / 1e6,
            statistics.fmean(stolen),
        ),
    }
    return ProbeResult(run, scenario, tables)


@dataclass(frozen=True)
class OperatorTimes:
    """Operators of a step, and their microseconds in each step; seconds of untimed steps."""

    operators: Sequence[Mapping[str, Any]]
    times_us: Sequence[Sequence[float]]
    free_s: Sequence[float] = ()


class OperatorsJob(BaseJob):
    """The network of a scenario on worker 0; a context manager. Held to its share on `confine`.

    Raises:
        ProbeFailed: the program died, or steps had different operators.
    """

    def __init__(self, cluster: Cluster, scenario: Scenario) -> None:
        self._node = cluster.of_role("worker")[0]
        self._environment = environment(cluster, self._node)
        config = ComputeConfig.of(cluster.interface, scenario, self._node)
        self._config = asdict(config) | {"batch_size": scenario.workload.batch_size}
        self._label = scenario.label
        super().__init__(cluster, scenario.label)

    def train(self, steps: int) -> list[float]:
        """Train steps; return the seconds of each."""
        reply = self._ask("trained", steps, do="train", steps=steps)
        return cast(list[float], reply["seconds"])

    def time_operators(self, steps: int) -> OperatorTimes:
        """Train steps; return their operators and what each took."""
        reply = self._ask("timed", steps, do="time_operators", steps=steps)
        operators = cast(Sequence[Mapping[str, Any]], reply["operators"])
        if not operators:
            raise ProbeFailed(
                f"steps of {self._label} had different operators: a network that branches on its "
                "input has no one step to profile"
            )
        return OperatorTimes(operators, cast(Sequence[Sequence[float]], reply["times_us"]))

    def confine(self) -> None:
        """Hold the program to its node's share and memory from now on."""
        self._programs.confine(self._node.name)

    def _start(self) -> None:
        module, name = "profilers.torch_operations.program", self._node.name
        config = json.dumps(self._config)
        self._programs.start(name, self._node, module, config, self._environment)
        ready = self._programs.expect([name], "ready", START_TIMEOUT_S)[name]
        self.parameter_count = cast(int, ready["parameter_count"])
        self.cluster_node: pl.DataFrame = cluster_nodes({self._node: Facts.of(ready)})

    def _ask(self, answer: str, count: int, **command: object) -> Message:
        name, timeout_s = self._node.name, STEP_TIMEOUT_S * count
        return self._programs.ask([name], answer, timeout_s, **command)[name]


def _piece(job: OperatorsJob, untimed: int, timed: int) -> OperatorTimes:
    free_s = job.train(untimed) if untimed else []
    operator_times = job.time_operators(timed)
    return OperatorTimes(operator_times.operators, operator_times.times_us, free_s)


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


def _needs(requested: RequestedScenarios, settings: Settings) -> Iterator[PlannedRun]:
    run_settings = settings.model_dump(exclude={"test"})
    expected = partial(_expected_s, settings)
    return plan_operation_runs(
        "torch_operations", requested, run_settings, expected, test=settings.test
    )


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
    tables=(
        "operation_time",
        "operation",
        "operation_shape",
        "dnn",
        "cluster_node",
        "sample",
    ),
    settings=Settings,
    needs=_needs,
    run=one_by_one(lambda: profile),
    concerns=trains_pytorch,
    one_node=True,
)
