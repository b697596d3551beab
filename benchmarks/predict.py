"""How long an answer about a user's own model takes, by stage, beside tracing the model alone.

It asks a copy of the history of this home (STEPCAST_HOME), so nothing is written to the home. What
is timed is a process of its own each time, with the graphs and fits kept that the first one kept.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from benchmarks.contract import Benchmark, Figure, Outcome, Say, tabulated
from warehouse.child_process import bound
from warehouse.durable_files import scratch
from warehouse.home import CHECKOUT, HISTORY, MAIN, home
from warehouse.records import BadInput, StepcastError

TIMES = 3
_TIMEOUT_S = 1200
_TARGET = "bench_model:build_model"
_MODEL = """
import torch
from torch import nn


def build_model(batch_size):
    layers, channels = [], 3
    for width in (64, 128, 256):
        layers += [nn.Conv2d(channels, width, 3, stride=2), nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)]
    return nn.Sequential(*layers, *head), torch.zeros(batch_size, 3, 64, 64)
"""
OPTIONS = {"batch_size": "8", "workers": "1,2,4", "worker": "emu.avx512.s15", "link_mbps": "500"}
"""What is asked about, as docs/my-model.md does."""
NEEDED = (
    "it needs a home with steps of other networks on emu.avx512.s15; set STEPCAST_HOME to a new "
    "folder and run `stepcast reproduce data/reference --study reference_grid`"
)
_COMMAND = "import os, sys; from pipelines.cli.main import main; os.chdir(sys.argv[1]); "


_STAGES = {
    "imports_s": "imports",
    "trace_s": "tracing the model",
    "open_s": "opening the history",
    "rows_s": "rows that fits rest on",
    "views_s": "views",
    "fits_s": "loading kept fits",
    "forecast_s": "forecasting",
}


def measure(_: Mapping[str, int], progress: Say) -> Outcome:
    """Time the stages one after another, and the whole command, where they overlap: medians.

    Raises:
        BadInput: this home has nothing that the question can be answered from.
        StepcastError: a process failed; the message ends with the last line of its stderr.
    """
    with _copy() as copy:
        progress("fits, unless they are kept")
        if not _asked(copy, keep=True)["forecasts"]:
            raise BadInput(f"no system forecasts the model from {home()}: {NEEDED}")
        stages: list[Mapping[str, float]] = []
        commands_s: list[float] = []
        for number in range(1, TIMES + 1):
            progress(f"stages and command, {number} of {TIMES}")
            stages.append(_asked(copy))
            commands_s.append(_command_s(copy))
        medians_s = {name: median(stage[name] for stage in stages) for name in _STAGES}
        command_s = median(commands_s)
        ratio = command_s / medians_s["trace_s"]
        return tabulated(
            *(Figure(what, medians_s[name], "s") for name, what in _STAGES.items()),
            Figure("the command", command_s, "s", ratio, "tracing the model"),
        )


@contextmanager
def _copy() -> Iterator[Path]:
    """Return a home with the published history of this one, and the model."""
    if not (home() / HISTORY).exists():
        raise BadInput(f"nothing has been measured in {home()}: {NEEDED}")
    with scratch(home()) as copy:
        copy.mkdir()
        for name in (MAIN, HISTORY):
            shutil.copyfile(home() / HISTORY, copy / name)
        (copy / f"{_TARGET.partition(':')[0]}.py").write_text(_MODEL)
        yield copy


def _asked(copy: Path, *, keep: bool = False) -> dict[str, float]:
    """Return the seconds of each stage, and how many forecasts came of it."""
    ran = _ran(copy, ["-m", __name__, str(copy), json.dumps(keep)])
    stages: dict[str, float] = json.loads(ran.splitlines()[-1])
    return stages


def _command_s(copy: Path) -> float:
    """Return seconds that the whole command takes."""
    options = [text for name, value in OPTIONS.items() for text in (_option(name), value)]
    arguments = ["predict", _TARGET, *options, "--json", "--dry-run"]
    started_s = time.perf_counter()
    _ran(copy, ["-c", f"{_COMMAND}main(sys.argv[2:])", str(copy), *arguments])
    return time.perf_counter() - started_s


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _ran(copy: Path, arguments: list[str]) -> str:
    ran = subprocess.run(
        bound([sys.executable, *arguments]),
        cwd=CHECKOUT,
        env={**os.environ, "STEPCAST_HOME": str(copy)},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if ran.returncode:
        why = (ran.stderr.strip().splitlines() or ["no message"])[-1]
        raise StepcastError(f"a question of the benchmark failed: {why}")
    return ran.stdout


class Stopwatch:
    """Seconds that functions took, by stage; what one calls of another counts once, as its own."""

    def __init__(self) -> None:
        self.taken_s: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add what the block takes to a stage, and not to the one around it."""
        started_s, inner_s = time.perf_counter(), sum(self.taken_s.values())
        try:
            yield
        finally:
            inside_s = sum(self.taken_s.values()) - inner_s
            own_s = time.perf_counter() - started_s - inside_s
            self.taken_s[name] = self.taken_s.get(name, 0.0) + own_s

    def timing(self, name: str, function: Callable[..., object]) -> Callable[..., object]:
        """Return a function that adds what it takes to a stage."""

        def timed(*arguments: object, **named: object) -> object:
            with self.stage(name):
                return function(*arguments, **named)

        return timed


def _main() -> None:
    """Ask once in this process, stage by stage, and print the seconds of each."""
    copy, keep = Path(sys.argv[1]), json.loads(sys.argv[2])
    os.chdir(copy)
    watch = Stopwatch()
    with watch.stage("imports_s"):
        from forecasting import calibration, forecast
        from forecasting.fit_plan import fit_groups
        from forecasting.fits import Fit, FitGroup
        from forecasting.inputs import systems_named
        from forecasting.options import ForecastOptions
        from pipelines.cli import predict_output, workload
        from warehouse.history import PublishedHistory
        from warehouse.warehouse import Warehouse

        assert predict_output  # the command prints by it
    with watch.stage("trace_s"):
        asked = ForecastOptions.model_validate(OPTIONS)
        with workload.tracing_own_workload(_TARGET, asked.training) as traced:
            own = traced()
    warehouse = Warehouse(copy) if keep else PublishedHistory(copy)
    with watch.stage("open_s"), warehouse.reading():
        pass

    def loaded(*arguments: Any) -> Mapping[FitGroup, Fit | BadInput]:
        fits = fit_groups(*arguments)
        for fit in fits.values():
            if isinstance(fit, Fit):
                fit.fitted()  # else it were loaded by the first forecast
        return fits

    with (
        patch.object(Warehouse, "visible_tables", watch.timing("rows_s", Warehouse.visible_tables)),
        patch.object(Warehouse, "query", watch.timing("views_s", Warehouse.query)),
        patch.object(forecast, "fit_groups", watch.timing("fits_s", loaded)),
        watch.stage("forecast_s"),
    ):
        answer = calibration.predict_corrected(
            warehouse,
            own.curves,
            systems_named([]),
            None,
            dry_run=not keep,
        )
    values = [forecast.value for forecast in answer.forecasts if forecast.value is not None]
    sys.stdout.write(json.dumps({**watch.taken_s, "forecasts": len(values)}) + "\n")


BENCHMARK = Benchmark(
    "The answer about a user's own model, stage by stage, beside tracing it alone; medians of "
    f"{TIMES}.",
    "Asks a copy of the history of this home, which needs steps of other networks on "
    "emu.avx512.s15: `stepcast reproduce data/reference --study reference_grid`.",
    measure,
)

if __name__ == "__main__":
    try:
        _main()
    except BadInput:  # nothing was measured on such nodes
        sys.stdout.write(json.dumps({"forecasts": 0}) + "\n")
