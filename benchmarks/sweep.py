"""Sweeps: parts by a plain loop, and on one and two processes of Dagster."""

import os
import shutil
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import yaml

from benchmarks.child import seconds
from benchmarks.contract import Benchmark, Figure, Outcome, Say, tabulated
from forecasting.sweep import SweepFolder, begin, folder_of, forecast_part
from forecasting.sweep_file import count_scenarios, read_sweep
from networks.kept_graphs import keep_beside
from pipelines import dagster_history
from pipelines.sweep import execute_sweep, start_step_server
from warehouse.durable_files import scratch
from warehouse.home import CHECKOUT, home
from warehouse.sets import copy_kept_runs, kept_runs
from warehouse.warehouse import Warehouse

PUBLIC = CHECKOUT / "data" / "public"
SWEEP = CHECKOUT / "studies" / "sweeps" / "aws_gpus.yaml"


def measure(sizes: Mapping[str, int], progress: Say) -> Outcome:
    """Time a sweep of some networks of `SWEEP`, three times, on public measurements.

    Graphs of networks are traced by a first loop, and kept for the others.
    """
    home().mkdir(parents=True, exist_ok=True)
    start_step_server()  # as the command does before it fits
    with scratch(home()) as place:
        file = _write_sweep(place, sizes["networks"])
        for folder in sorted(PUBLIC.iterdir()):
            copy_kept_runs(folder, place / "landing", [run.run_id for run in kept_runs(folder)])
        warehouse = Warehouse(place)
        warehouse.load()
        keep_beside(place)
        sweep = read_sweep(file)
        swept = folder_of(sweep, file, place)
        progress("fit")
        begin(swept, sweep, warehouse)
        progress("trace networks")
        traced_s = sum(_loop(swept))
        progress("a plain loop")
        looped = _copy(swept, "loop")
        parts_s = _loop(looped)
        loop_s, are_equal = sum(parts_s), _bytes(swept) == _bytes(looped)
        count = count_scenarios(sweep)
        processes = []
        for workers in (1, 2):
            progress(f"Dagster, {workers} at a time")
            copied = _copy(swept, f"processes-{workers}")
            started = time.perf_counter()
            with dagster_history.instance(place, of_steps=True) as instance:
                execute_sweep(instance, copied, workers=workers)
            took_s = time.perf_counter() - started
            are_equal &= _bytes(copied) == _bytes(swept)
            what = f"Dagster, {workers} process{'es' if workers > 1 else ''}"
            processes.append(
                Figure(what, count / took_s, "scenarios/s", loop_s / took_s, "the loop")
            )
        return tabulated(
            Figure("a plain loop", count / loop_s, "scenarios/s"),
            *processes,
            Figure("tracing the networks, once", traced_s - loop_s, "s"),
            Figure("the last part", parts_s[-1], "s", parts_s[-1] / parts_s[0], "the first part"),
            notes=(
                f"{count:,} scenarios in {len(swept.parts)} parts: "
                f"{'the same bytes' if are_equal else 'NOT the same bytes'} each time.",
            ),
        )


def _write_sweep(place: Path, network_count: int) -> Path:
    place.mkdir()
    content = yaml.safe_load(SWEEP.read_text())
    for template in content["scenarios"]:
        template["dnn"] = template["dnn"][:network_count]
    file = place / "sweep.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


def _loop(folder: SweepFolder) -> list[float]:
    """Return seconds of each part."""
    return [seconds(partial(forecast_part, folder, part.number)) for part in folder.parts]


def _copy(folder: SweepFolder, name: str) -> SweepFolder:
    """Return the same sweep without parts."""
    copy = folder.path.with_name(name)
    shutil.copytree(
        folder.path,
        copy,
        symlinks=True,
        copy_function=os.link,
        ignore=shutil.ignore_patterns("part-*"),
    )
    return SweepFolder(copy)


def _bytes(folder: SweepFolder) -> list[bytes]:
    return [(folder.path / part.file).read_bytes() for part in folder.parts]


BENCHMARK = Benchmark(
    "Forecasts of studies/sweeps/aws_gpus.yaml by a plain loop, and on one and two processes.",
    "data/public; up to 8 networks of 13,680 scenarios each, about three minutes for two.",
    measure,
    {"networks": 2},
)
