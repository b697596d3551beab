"""Sweeps: parts by a plain loop, and on one and two processes of Dagster."""

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from forecasting.sweep import SweepFolder, begin, folder_of, forecast_part
from forecasting.sweep_file import count_scenarios, read_sweep
from networks.kept_graphs import keep_beside
from pipelines import dagster_history
from pipelines.sweep import execute_sweep, start_step_server
from warehouse.durable_files import scratch
from warehouse.home import CHECKOUT, home
from warehouse.sets import copy_kept_runs, kept_runs
from warehouse.warehouse import Warehouse

SWEEP = CHECKOUT / "studies" / "sweeps" / "aws_gpus.yaml"


@dataclass(frozen=True)
class SweepReport:
    """Seconds for all `scenarios`; `traced_s` is of the first loop, which traces networks."""

    scenarios: int
    parts: int
    traced_s: float
    loop_s: float
    first_part_s: float
    last_part_s: float
    one_process_s: float
    two_processes_s: float
    are_equal: bool

    def per_s(self, seconds: float) -> float:
        """Return scenarios a second."""
        return self.scenarios / seconds

    def to_dict(self) -> dict[str, Any]:
        """Return the figures by name."""
        return asdict(self)


def measure(network_count: int, data: Path, progress: Callable[[str], None]) -> SweepReport:
    """Time a sweep of some networks of `SWEEP`, three times, on public measurements.

    Graphs of networks are traced by a first loop, and kept for the others.

    Args:
        network_count: networks of the file, from its first.
        data: the folder of public measurements.
        progress: told what is timed.
    """
    home().mkdir(parents=True, exist_ok=True)
    start_step_server()  # as the command does before it fits
    with scratch(home()) as place:
        file = _write_sweep(place, network_count)
        for folder in sorted(data.iterdir()):
            copy_kept_runs(folder, place / "landing", [run.run_id for run in kept_runs(folder)])
        warehouse = Warehouse(place)
        warehouse.load()
        keep_beside(place)
        sweep = read_sweep(file)
        swept = folder_of(sweep, file, place)
        progress("fit")
        begin(swept, sweep, warehouse)
        progress("trace networks")
        traced_s = _loop(swept)[0]
        progress("a plain loop")
        looped = _copy(swept, "loop")
        loop_s, first_s, last_s = _loop(looped)
        processes_s, are_equal = [], _bytes(swept) == _bytes(looped)
        for workers in (1, 2):
            progress(f"Dagster, {workers} at a time")
            copied = _copy(swept, f"processes-{workers}")
            started = time.perf_counter()
            with dagster_history.instance(place, of_steps=True) as instance:
                execute_sweep(instance, copied, workers=workers)
            processes_s.append(time.perf_counter() - started)
            are_equal &= _bytes(copied) == _bytes(swept)
        return SweepReport(
            scenarios=count_scenarios(sweep),
            parts=len(swept.parts),
            traced_s=traced_s,
            loop_s=loop_s,
            first_part_s=first_s,
            last_part_s=last_s,
            one_process_s=processes_s[0],
            two_processes_s=processes_s[1],
            are_equal=are_equal,
        )


def _write_sweep(place: Path, network_count: int) -> Path:
    place.mkdir()
    content = yaml.safe_load(SWEEP.read_text())
    for template in content["scenarios"]:
        template["dnn"] = template["dnn"][:network_count]
    file = place / "sweep.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


def _loop(folder: SweepFolder) -> tuple[float, float, float]:
    """Return seconds of all parts, of the first and of the last."""
    times_s = []
    for part in folder.parts:
        started = time.perf_counter()
        forecast_part(folder, part.number)
        times_s.append(time.perf_counter() - started)
    return sum(times_s), times_s[0], times_s[-1]


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
