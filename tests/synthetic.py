"""Probes that run nothing: small results typed in here, in the shape of those of real probes."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import polars as pl
import pytest

from forecasting.inputs import input_runs_of_curve, inputs_of_study
from models.async_sgd import predictor
from models.async_sgd.systems import ASYNC_SGD
from models.baselines import LINEAR
from models.system import System
from models.systems import SYSTEMS
from profilers.nodes.tf_jobs import StepTime
from profilers.probe import THROUGHPUT, Measured, PlannedRun, Session
from profilers.probes import PROBES
from profilers.steady import hostlock
from profilers.steady.host import MeasuredValue
from profilers.tables import sample_table, step_table, traced_step_table, window_rows
from studies.curve import Curve
from studies.measurement import profile
from studies.messages import Progress
from studies.planned_runs import required_runs as needs_of
from studies.rounds import Round, open_round
from studies.study import Study
from tests.made_run import made_run
from warehouse.records import Backend, ProbeFailed, Run, Scenario

STUDY = """
name: paper
description: two curves that exist on paper
backend: loopback
systems: [async_sgd, linear]
probes:
  links: {flows: [1, 2], seconds: 1, trials: 2}
  tf_trace: {traced_steps: 4, untraced_steps: 4}
  tf_throughput: {windows: 2, window_s: 1}
test:
  - {dnn: small_cnn, image_size: 16, batch_size: 4, worker: emu.native.c25, server: emu.server,
     link_mbps: 200, workers: [1, 2]}
  - {dnn: alexnet, image_size: 64, batch_size: 4, worker: emu.native.c25, server: emu.server,
     link_mbps: 200, workers: [1, 3]}
"""
LOOPBACK = "backend: loopback\nsystems: [async_sgd, linear]"
"""Of `STUDY`."""
DDP = """
name: paper
systems: [srift, ideal_scaling]
probes:
  links: {flows: [1, 2], seconds: 1, trials: 2}
  allreduce: {sizes_bytes: [4, 1048576], world_sizes: [2, 3], trials: 3}
  torch_compute: {batch_sizes: [1, 8], trials: 5, watched_trials: 2}
  torch_throughput: {iterations: 20}
test:
  - {dnn: resnet18, framework: pytorch, strategy: all_reduce, image_size: 32, batch_size: 4,
     worker: emu.native.c25, link_mbps: 800, workers: [2, 3]}
  - {dnn: resnet18, framework: pytorch, strategy: all_reduce, image_size: 32, batch_size: 8,
     worker: emu.native.c25 + emu.avx2.c25, link_mbps: 800, workers: [3]}
"""
SYNCHRONOUS = """
name: paper
probes:
  tf_operations: {traced_steps: 4, untraced_steps: 4, test: true}
  tf_sync: {windows: 2, window_s: 1}
train:
  - {dnn: alexnet, strategy: all_reduce, image_size: 64, batch_size: 4, worker: emu.native.c25,
     link_mbps: 800, workers: [1, 2]}
test:
  - {dnn: small_cnn, strategy: all_reduce, image_size: 24, batch_size: 4, worker: emu.native.c25,
     link_mbps: 800, workers: [2]}
"""
PYTORCH = """
name: paper
systems: [srift, ideal_scaling, ceer_pytorch, ceer_pytorch_paper]
probes:
  torch_operations: {timed_steps: 4, untimed_steps: 4, test: true}
  torch_compute: {batch_sizes: [1, 8], trials: 5, watched_trials: 2}
train:
  - {dnn: [vgg11, alexnet], framework: pytorch, strategy: all_reduce, image_size: 64,
     batch_size: 4, worker: emu.native.c25, link_mbps: 800, workers: [1, 2, 3]}
test:
  - {dnn: resnet18, framework: pytorch, strategy: all_reduce, image_size: 64, batch_size: 4,
     worker: emu.native.c25, link_mbps: 800, workers: [2, 3]}
"""
"""Judged by a system that sees profiles of test scenarios, and by one that sees none."""
ONLY_PROFILES = """
name: profiled
backend: loopback
probes:
  links: {flows: [1, 2], seconds: 1, trials: 2}
  contention: {flows: [2], seconds: 1, trials: 2}
  tf_trace: {traced_steps: 4, untraced_steps: 4}
train:
  - {dnn: [small_cnn, alexnet], image_size: 64, batch_size: 4, worker: emu.native.c25,
     server: emu.server, link_mbps: 200, workers: [1, 2]}
"""
"""Nothing of it is forecast or judged."""
CAPTURING = STUDY.replace("untraced_steps: 4", "untraced_steps: 4, capture: true")
MIXED = STUDY.replace("worker: emu.native.c25", "worker: emu.native.c25 + emu.native.c15", 1)
"""The first curve's workers are of two types."""
PROFILING: tuple[str, ...] = ("links", "contention", "tf_trace")
"""The probes that profile asynchronous curves, in the order in which they run."""
HOST = "host-1"
FORECASTERS = [ASYNC_SGD, LINEAR]
"""The systems of `STUDY`."""
SHORT = predictor.Settings(simulated_operations=5_000, warm_up_steps=5)
LINK_BPS = 25e6
STEP_US = 100_000
WINDOW_BYTES = 300_000
"""The flow-control window of captured runs: shorter than the tensors."""
OPERATIONS = [
    ("weights", "VariableV2", "ps", 0, None),
    ("weights/read", "Recv", "downlink", 0, 400_000),
    ("forward", "Conv2D", "worker", None, None),
    ("gradient", "Conv2DBackpropFilter", "worker", None, None),
    ("gradient/send", "Recv", "uplink", 0, 400_000),
    ("update", "ApplyGradientDescent", "ps", 0, None),
]
EDGES = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
STARTS_US = [0, 1_000, 17_000, 40_000, 70_000, 86_000]
DURATIONS_US = [1_000, 16_000, 23_000, 30_000, 16_000, 2_000]


def by_workers(scenario: Scenario) -> float:
    """Return a throughput that grows ever more slowly."""
    workers = scenario.strategy.workers
    return 10.0 * workers / (1 + 0.2 * (workers - 1))


@dataclass
class PaperProbes:
    """Stand-ins for the probes, with short simulations; `asked` lists what they were asked for."""

    throughput: Callable[[Scenario], float] = by_workers
    idle: float = 0.5
    asked: list[str] = field(default_factory=list)
    fail_at: str = ""
    operations: list[tuple[Any, ...]] = field(default_factory=lambda: list(OPERATIONS))

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put these in the place of the real probes."""
        runs = {
            "links": self.measure_links,
            "contention": self.measure_contention,
            "tf_trace": self.profile,
            "tf_throughput": self.measure_throughput,
        }
        for name, run in runs.items():
            monkeypatch.setitem(cast(dict[str, Any], PROBES), name, replace(PROBES[name], run=run))
        monkeypatch.setattr(predictor, "Settings", lambda: SHORT)
        # They measure nothing, so nobody who does need wait for them.
        monkeypatch.setattr(hostlock, "NAME", f"\0stepcast-on-paper-{os.getpid()}")

    def _ask(self, name: str) -> None:
        self.asked.append(name)
        if name == self.fail_at:
            raise ProbeFailed(f"worker0 of {name} ended early\n(exit 1): no paper left")

    def measure_links(self, session: Session, needs: Sequence[PlannedRun]) -> Iterator[Measured]:
        """Yield links on which flows share evenly."""
        settings = needs[0].settings
        self._ask("links")
        session.say("probe links")
        rows = [
            (direction, count, flow, trial, settings["seconds"], LINK_BPS / count)
            for direction in ("downlink", "uplink")
            for count in settings["flows"]
            for trial in range(settings["trials"])
            for flow in range(count)
        ]
        columns = ["direction", "flows", "flow", "trial", "seconds", "bandwidth_Bps"]
        frame = pl.DataFrame(rows, schema=columns, orient="row").with_columns(
            bytes=(pl.col("seconds") * pl.col("bandwidth_Bps")).cast(pl.Int64), retransmits=0
        )
        artefact = session.scratch / "iperf3.json"
        artefact.write_text("[]")
        config = {"trials": settings["trials"]}
        yield Measured({"link": frame}, config, {artefact.name: artefact})

    def measure_contention(
        self, session: Session, needs: Sequence[PlannedRun]
    ) -> Iterator[Measured]:
        """Yield transfers that share evenly."""
        settings = needs[0].settings
        self._ask("contention")
        session.say("contention")
        seconds = settings["seconds"]
        rows = [
            (direction, count, place, seconds, int(LINK_BPS / count * seconds), 0.0)
            for direction in ("downlink", "uplink")
            for count in settings["flows"]
            for place in range(count)
        ]
        columns = ["direction", "flows", "place", "seconds", "bytes", "log_share_sd"]
        frame = pl.DataFrame(rows, columns, orient="row")
        yield Measured({"contention": frame}, needs[0].subject.config)

    def profile(self, session: Session, needs: Sequence[PlannedRun]) -> Iterator[Measured]:
        """Yield steps that are all alike."""
        (need,) = needs
        dnn, traced = need.scenario.workload.dnn, need.settings["traced_steps"]
        self._ask(f"profile {dnn}")
        session.say(f"profile {dnn}")
        tables = self._trace(traced, need.settings["untraced_steps"])
        captured = captured_tables(traced) if need.settings["capture"] else {}
        yield Measured(tables | captured)

    def _trace(self, traced_steps: int, untraced_steps: int) -> dict[str, pl.DataFrame]:
        names = ["name", "type", "resource", "server", "size_bytes"]
        operation = pl.DataFrame(self.operations, schema=names, orient="row").with_row_index(
            "operation"
        )
        timing = [
            (step, index, STARTS_US[index], DURATIONS_US[index])
            for step in range(traced_steps)
            for index in range(len(self.operations))
        ]
        traced, untraced = (
            [StepTime(step * STEP_US, step * STEP_US + 90_000) for step in range(count)]
            for count in (traced_steps, untraced_steps)
        )
        return {
            "operation": operation,
            "edge": pl.DataFrame(EDGES, schema=["source", "target"], orient="row"),
            "timing": pl.DataFrame(
                timing, schema=["step", "operation", "start_us", "duration_us"], orient="row"
            ),
            "step": traced_step_table(traced, untraced),
            "sample": sample_table(
                [("step_time_s", "s", None, 0.1), ("client_gap_s", "s", None, 0.012)]
            ),
        }

    def measure_throughput(
        self, session: Session, needs: Sequence[PlannedRun]
    ) -> Iterator[Measured]:
        """Yield `throughput` of scenarios in windows 2 % apart, and 12 steps of each worker."""
        for scenario in (need.scenario for need in needs):
            self._ask(f"measure {scenario.label}")
            session.begin(f"measure {scenario.label}")
            rate, workers = self.throughput(scenario), scenario.strategy.workers
            windows = [
                (rate * (1 + 0.02 * window), MeasuredValue(None, self.idle, 0.0))
                for window in range(needs[0].settings["windows"])
            ]
            step_us = round(1e6 * workers / rate)
            steps = step_table(
                (worker, step, None, False, step * step_us, (step + 1) * step_us)
                for worker in range(workers)
                for step in range(12)
            )
            sample = sample_table(window_rows(THROUGHPUT, windows))
            yield Measured({"sample": sample, "step": steps})


def profiled(round_: Round, landing: Path) -> Round:
    """Run all probes that profile asynchronous curves; return the round as it is then."""
    for probe in PROFILING:
        round_ = profile(round_, probe, landing, Progress())
    return round_


def captured_tables(traced_steps: int) -> dict[str, pl.DataFrame]:
    """Return tables stream and http2_frame of traced steps whose transfers went out whole.

    The weights' last packet comes 1 ms before their record's end, the gradient's 2 ms.
    """
    streams: list[tuple[object, ...]] = []
    frames: list[tuple[object, ...]] = []
    for direction, operation, sender, receiver, parsing_us in (
        ("downlink", 1, "server", "worker", 1_000),
        ("uplink", 4, "worker", "server", 2_000),
    ):
        frames.append((direction, receiver, "SETTINGS", 0, 0, 6, WINDOW_BYTES))
        for step in range(traced_steps):
            first_us = step * STEP_US + STARTS_US[operation]
            last_us = first_us + DURATIONS_US[operation] - parsing_us
            stream, size_bytes = 2 * step + 1, 400_030
            streams.append((step, direction, stream, operation, size_bytes, first_us, last_us))
            frames.append((direction, sender, "DATA", stream, first_us, size_bytes, None))
    between = {"worker": pl.lit(0, pl.Int16), "server": pl.lit(0, pl.Int16)}
    columns = ["step", "direction", "stream", "operation", "size_bytes", "first_us", "last_us"]
    names = ["direction", "sender", "type", "stream", "time_us", "length_bytes", "value"]
    return {
        "stream": pl.DataFrame(streams, schema=columns, orient="row").with_columns(
            segments=1, **between
        ),
        "http2_frame": pl.DataFrame(frames, schema=names, orient="row").with_columns(**between),
    }


def landed(need: PlannedRun, repeat: int = 1, **changes: object) -> Run:
    """Return a run that serves as a need of a round; later rounds ran later."""
    started_at = datetime(2030, 1, repeat, tzinfo=UTC)
    subject = need.subject
    fields: dict[str, Any] = {
        "run_id": f"{need.title}, round {repeat}",
        "probe": need.probe,
        "purpose": need.purpose,
        "study": "paper",
        "repeat": repeat,
        "scenario_id": subject.scenario.scenario_id if subject.scenario else None,
        "ended_at": started_at + timedelta(seconds=9),
        "host_id": HOST,
        "config": {**subject.config, "link_mbps": subject.link_mbps},
    }
    return made_run(began=started_at, **fields | changes)


def needs(study: Study, backend: Backend = "emulated") -> tuple[PlannedRun, ...]:
    """Return what a round of a study needs."""
    return needs_of(study, backend, inputs_of_study(study))


def opened(
    study: Study, backend: Backend = "emulated", host: str = HOST, runs: Iterable[Run] = ()
) -> Round:
    """Return the round of a study that is to be done, after these runs."""
    return open_round(study, inputs_of_study(study), backend, host, runs)


def write_study(folder: Path, text: str = STUDY) -> Path:
    """Write a study file and return its path."""
    path = folder / "paper.yaml"
    path.write_text(text)
    return path


def seen_of(curve: Curve, study: Study, backend: Backend, *systems: System) -> list[PlannedRun]:
    """Return what forecasts of a curve rest on, of these systems or of all."""
    needed = needs(study, backend)
    inputs = {
        need
        for system in systems or SYSTEMS
        for need in input_runs_of_curve(system, curve, needed, backend, ())
    }
    return [need for need in needed if need in inputs]
