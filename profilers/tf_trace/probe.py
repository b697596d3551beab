"""Probe `tf_trace`: one worker's training steps, operation by operation.

Untraced steps before and after the traced ones tell what the tracer costs and how long a step of
the same job takes. Packets captured meanwhile tell when each tensor was on the link.
"""

import statistics
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl
from pydantic import Field

from profilers import clock
from profilers.captures import JobCapture, check_tcpdump
from profilers.clusters import Cluster
from profilers.clusters.fleet import BACKENDS
from profilers.nodes.tf_jobs import ROLES, AsyncJob, StepTime
from profilers.probe import (
    STEP_S,
    PlannedRun,
    Probe,
    ProbeResult,
    RequestedScenarios,
    RunContext,
    Setting,
    finished_run,
    one_by_one,
    start_s,
)
from profilers.readers import run_metadata
from profilers.scenarios import is_async
from profilers.steady.host import Patience
from profilers.steady.hostlock import host_lock
from warehouse import limits
from warehouse.records import Backend, BadInput, Record, Role, Scenario
from warehouse.requirements import Subject

WARM_UP_STEPS = 5
PIECE_STEPS = 10
"""Steps that are measured again together if something disturbs them."""


def profile(
    cluster: Cluster,
    scenario: Scenario,
    context: RunContext,
    *,
    traced_steps: int,
    untraced_steps: int,
    capture: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> ProbeResult:
    """Trace steps of one worker.

    Args:
        cluster: the scenario's servers and one worker.
        scenario: one with W = 1.
        context: study and round.
        traced_steps: steps under the full tracer.
        untraced_steps: steps without it, half before and half after.
        capture: also capture the worker's packets during the traced steps.
        progress: told what runs now.

    Returns:
        A run with tables `operation`, `edge`, `timing`, `step` and `sample`: `step_time_s` of the
        untraced steps, `worker_cpu_s_per_step` and `server_cpu_s_per_step` of their programs,
        `client_gap_s` (see `_client_gap_s`), `stolen_cpu_fraction` of the host's processor time.
        With a capture also `stream` and `http2_frame`, and the sample `captured_fraction`: the
        share of timed transfers whose packets were found.

    Raises:
        BadInput: W is not 1.
        ProbeFailed: the job failed.
        MissingTool: `capture` without tcpdump.
    """
    if scenario.strategy.workers != 1:
        raise BadInput(f"a profile needs one worker, {scenario.label} has more")
    started_at = clock.now()
    dnn = scenario.workload.dnn
    packets = JobCapture(cluster, context.scratch, wanted=capture)
    patience = Patience(cluster.cpu_times)
    with (
        host_lock(progress),
        packets.control(),
        AsyncJob(cluster, scenario, progress) as job,
    ):
        worker = job.workers[0]
        progress(f"profile {dnn}: {untraced_steps} untraced steps, {traced_steps} traced")
        job.run(worker, WARM_UP_STEPS)
        before = patience.pieces(partial(_untraced, job), untraced_steps // 2, PIECE_STEPS)
        with packets.steps():
            traces = patience.pieces(partial(job.trace, worker), traced_steps, PIECE_STEPS)
        rest = untraced_steps - untraced_steps // 2
        after = patience.pieces(partial(_untraced, job), rest, PIECE_STEPS)
        if cluster.here:
            clock.check_unset(cluster.clock)
        traced = [time for piece in traces for time in piece.value[0]]
        files = [file for piece in traces for file in piece.value[1]]
        progress(f"profile {dnn}: read traces")
        trace = run_metadata.read(files, [time.start_us for time in traced])
        artefact = _archive(files, context.scratch)
    captured = packets.read(trace, [(time.start_us, time.end_us) for time in traced])
    untraced = [time for piece in before + after for time in piece.value.times]
    cpu_s = [piece.value.cpu_s for piece in before + after]
    disturbances = [piece.stolen for piece in before + after] + [piece.stolen for piece in traces]
    settings: dict[str, Setting] = {
        "traced_steps": traced_steps,
        "untraced_steps": untraced_steps,
        "warm_up_steps": WARM_UP_STEPS,
        "capture": capture,
    }
    run = finished_run("tf_trace", cluster, scenario, context, started_at, settings)
    samples = [
        ("step_time_s", "s", _mean_s(untraced)),
        ("traced_step_time_s", "s", _mean_s(traced)),
        ("client_gap_s", "s", _client_gap_s(trace.timing, untraced)),
        ("stolen_cpu_fraction", "1", statistics.fmean(disturbances)),
        *(
            (f"{role}_cpu_s_per_step", "s", sum(times[role] for times in cpu_s) / len(untraced))
            for role in ROLES
        ),
        *captured.samples,
    ]
    tables = {
        "operation": trace.operation,
        "edge": trace.edge,
        "timing": trace.timing,
        "step": _step_frame(traced, untraced),
        "sample": pl.DataFrame(
            samples, schema=["metric", "unit", "value"], orient="row"
        ).with_columns(window=pl.lit(None, pl.Int16)),
        **captured.tables,
    }
    artefacts = {artefact.name: artefact, **captured.artefacts}
    return ProbeResult(run, scenario, tables, artefacts)


@dataclass(frozen=True)
class _Untraced:
    """Steps without the tracer, and the processor time they took by role."""

    times: list[StepTime]
    cpu_s: Mapping[Role, float]


def _untraced(job: AsyncJob, steps: int) -> _Untraced:
    had_s = job.cpu_s()
    times = job.run(job.workers[0], steps)
    return _Untraced(times, {role: had - had_s[role] for role, had in job.cpu_s().items()})


def _mean_s(steps: Sequence[StepTime]) -> float:
    return statistics.fmean(step.end_us - step.start_us for step in steps) / 1e6


def _client_gap_s(timing: pl.DataFrame, untraced: Sequence[StepTime]) -> float:
    """Mean seconds that a step takes at the client after its last operation has ended.

    That is the untraced step less the traced steps' time to the end of their last operation
    (operations are timed from the client's start of the step). The client's own time after a
    traced step would not do: it is spent on receiving the tracer's records. Where the tracer slows
    operations by more than the gap, 0 is the closest that can be known.
    """
    ends_us = timing.group_by("step").agg((pl.col("start_us") + pl.col("duration_us")).max())
    return max(_mean_s(untraced) - statistics.fmean(ends_us.to_series(1)) / 1e6, 0.0)


def _step_frame(traced: Sequence[StepTime], untraced: Sequence[StepTime]) -> pl.DataFrame:
    rows = [
        (0, step, is_traced, time.start_us, time.end_us)
        for is_traced, times in ((True, traced), (False, untraced))
        for step, time in enumerate(times)
    ]
    columns = ["worker", "step", "traced", "start_us", "end_us"]
    return pl.DataFrame(rows, schema=columns, orient="row").with_columns(
        window=pl.lit(None, pl.Int16)
    )


def _archive(files: Sequence[Path], folder: Path) -> Path:
    path = folder / "run_metadata.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=4) as archive:
        for step, file in enumerate(files):
            archive.add(file, arcname=f"run_metadata_{step:05d}.pb")
    return path


class Settings(Record):
    """How many steps of one worker are traced, and how many are run untraced beside them.

    With `capture`, the worker's packets are captured during the traced steps.
    """

    traced_steps: int = Field(default=40, ge=2, le=limits.REPEATS)
    untraced_steps: int = Field(default=30, ge=2, le=limits.REPEATS)
    capture: bool = False


def _needs(requested: RequestedScenarios, settings: Settings) -> Iterator[PlannedRun]:
    """Yield one trace for all scenarios that share it."""
    for scenario in dict.fromkeys(requested.own):
        yield PlannedRun(
            Subject("tf_trace", scenario, scenario.link_mbps),
            "profile",
            f"profile {scenario.label}",
            scenario.nodes,
            settings.model_dump(),
            expected_s=(settings.traced_steps + settings.untraced_steps) * STEP_S,
            start_s=start_s(scenario.nodes),
        )


def _check(requested: RequestedScenarios, needs: Sequence[PlannedRun], backend: Backend) -> None:
    captures = any(need.settings["capture"] for need in needs)
    if captures and backend not in BACKENDS:  # machines tell what they lack once they are up
        check_tcpdump()


PROBE = Probe(
    name="tf_trace",
    what="Steps of one asynchronous worker, operation by operation, untraced steps beside them.",
    kind="tensorflow",
    tables=("operation", "edge", "timing", "step", "sample", "stream", "http2_frame"),
    settings=Settings,
    needs=_needs,
    run=one_by_one(lambda: profile),
    concerns=is_async,
    essential=frozenset({"capture"}),
    one_node=True,
    check=_check,
)
