"""Probe `tf_trace`: one worker's training steps, operation by operation.

Untraced steps before and after the traced ones tell what the tracer costs and how long a step of
the same job takes. Packets captured meanwhile tell when each tensor was on the link.
"""

import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from statistics import fmean

import polars as pl
from pydantic import Field

from profilers import clock
from profilers.captures import CONTROL, EVERYTHING, capture, check_tcpdump, read_captures
from profilers.nodes.tf_jobs import AsyncJob, StepTime, mean_s
from profilers.probe import (
    STEP_S,
    Measured,
    PlannedRun,
    Probe,
    RequestedScenarios,
    Session,
    one_by_one,
    plan_scenario,
)
from profilers.scenarios import is_async
from profilers.steady.host import Patience
from profilers.tables import sample_table, traced_step_table
from warehouse import limits
from warehouse.records import Backend, Record, Role

WARM_UP_STEPS = 5
PIECE_STEPS = 10
"""Steps that are measured again together if something disturbs them."""


TRIES = 3
"""How often steps are traced where the wall clock is set meanwhile, as hosts do now and then."""


def _measure(session: Session, need: PlannedRun) -> Measured:
    for _ in range(TRIES - 1):
        with suppress(clock.ClockSet):
            return traced_run(session, need)
        session.say("the wall clock was set while steps were traced: they are traced once more")
        session.cluster.clock = clock.environment()
    return traced_run(session, need)


def traced_run(session: Session, need: PlannedRun) -> Measured:
    """Trace steps of one worker; half of the untraced ones come before, half after.

    With a capture also find the packets of timed transfers (`captured_fraction` of them).

    Raises:
        ClockSet: the host's wall clock was set meanwhile.
        ProbeFailed: the job failed.
    """
    settings, cluster, dnn = Settings(**need.settings), session.cluster, need.scenario.workload.dnn
    (worker,), asked = cluster.of_role("worker"), settings.untraced_steps
    control, in_steps = session.scratch / "control.pcap", session.scratch / "steps.pcap"

    def packets(file: Path, kind: str) -> AbstractContextManager[None]:
        return capture(cluster, worker, file, kind) if settings.capture else nullcontext()

    patience = Patience(cluster.cpu_times)
    with packets(control, CONTROL), AsyncJob(cluster, need.scenario, session.say) as job:
        session.say(f"profile {dnn}: {asked} untraced steps, {settings.traced_steps} traced")
        job.run(worker, WARM_UP_STEPS)
        before = patience.pieces(partial(_untraced, job), asked // 2, PIECE_STEPS)
        with packets(in_steps, EVERYTHING):
            trace_of = partial(job.trace, worker)
            traces = patience.pieces(trace_of, settings.traced_steps, PIECE_STEPS)
        after = patience.pieces(partial(_untraced, job), asked - asked // 2, PIECE_STEPS)
        if cluster.here:
            clock.check_unset(cluster.clock)
        traced = [time for piece in traces for time in piece.value[0]]
        files = [file for piece in traces for file in piece.value[1]]
        session.say(f"profile {dnn}: read traces")
        from profilers.readers import run_metadata  # loads protobuf

        trace = run_metadata.read(files, [time.start_us for time in traced])
        artefact = session.scratch / "run_metadata.tar.gz"
        with tarfile.open(artefact, "w:gz", compresslevel=4) as archive:
            for step, file in enumerate(files):
                archive.add(file, arcname=f"run_metadata_{step:05d}.pb")
    pieces = [piece.value for piece in before + after]
    untraced = [time for times, _ in pieces for time in times]
    samples = [
        ("step_time_s", "s", mean_s(untraced)),
        ("traced_step_time_s", "s", mean_s(traced)),
        ("client_gap_s", "s", _client_gap_s(trace.timing, untraced)),
        ("stolen_cpu_fraction", "1", patience.stolen),
        *(
            (f"{role}_cpu_s_per_step", "s", sum(cpu_s[role] for _, cpu_s in pieces) / asked)
            for role in pieces[0][1]
        ),
    ]
    tables = {
        "operation": trace.operation,
        "edge": trace.edge,
        "timing": trace.timing,
        "step": traced_step_table(traced, untraced),
    }
    artefacts = {artefact.name: artefact}
    if settings.capture:
        captured, share, copies = read_captures(control, in_steps, trace, traced)
        tables |= captured
        artefacts |= copies
        samples.append(("captured_fraction", "1", share))
    rows = ((metric, unit, None, value) for metric, unit, value in samples)
    tables["sample"] = sample_table(rows)
    config = {**need.settings, "warm_up_steps": WARM_UP_STEPS}
    return Measured(tables, config, artefacts)


def _untraced(job: AsyncJob, steps: int) -> tuple[list[StepTime], Mapping[Role, float]]:
    """Run steps as they are; return each, and seconds of processors by role."""
    had_s = job.cpu_s_by_role()
    times = job.run(job.workers[0], steps)
    return times, {role: s - had_s[role] for role, s in job.cpu_s_by_role().items()}


def _client_gap_s(timing: pl.DataFrame, untraced: Sequence[StepTime]) -> float:
    """Mean seconds that a step takes at the client after its last operation has ended.

    That is the untraced step less the traced steps' time to the end of their last operation
    (operations are timed from the client's start of the step). The client's own time after a
    traced step would not do: it is spent on receiving the tracer's records. Where the tracer slows
    operations by more than the gap, 0 is the closest that can be known.
    """
    ends_us = timing.group_by("step").agg((pl.col("start_us") + pl.col("duration_us")).max())
    return max(mean_s(untraced) - fmean(ends_us.to_series(1)) / 1e6, 0.0)


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
        expected_s = (settings.traced_steps + settings.untraced_steps) * STEP_S
        yield plan_scenario("tf_trace", scenario, settings.model_dump(), expected_s)


def _check(requested: RequestedScenarios, needs: Sequence[PlannedRun], backend: Backend) -> None:
    if any(need.settings["capture"] for need in needs):
        check_tcpdump(backend)


PROBE = Probe(
    name="tf_trace",
    what="Steps of one asynchronous worker, operation by operation, untraced steps beside them.",
    kind="tensorflow",
    tables=("operation", "edge", "timing", "step", "sample", "stream", "http2_frame"),
    settings=Settings,
    needs=_needs,
    run=one_by_one(_measure),
    concerns=is_async,
    essential=frozenset({"capture"}),
    check=_check,
)
