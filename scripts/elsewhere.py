"""Measures runs of a study on a machine that has PyTorch, but neither Dagster nor DuckDB.

1. Here, list what the study's first round there needs:
   `python -m scripts.elsewhere ask studies/reference_gpu.yaml profile loopback > asked.json`
2. There, measure it. It takes numpy, polars, pydantic, pytorchcv, PyYAML and PyTorch, and this
   checkout. It stops before it has taken longer than it may; what is done by then is kept:
   `python -m scripts.elsewhere measure asked.json measured --most-s 300`
3. Here, land what came back, and load it:
   `python -m scripts.elsewhere land measured HOME/landing`; `stepcast load`
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
from pydantic import TypeAdapter

from profilers.clusters import open_cluster
from profilers.probe import PlannedRun, ProbeResult, RunContext, measure_planned_runs
from profilers.probes import PROBES
from studies.planned_runs import group_by_start, nodes_of, required_runs
from warehouse.records import Backend, Purpose, Record, Run, Scenario


class PlannedStart(Record):
    """Needs of a study, those of one start of programs together."""

    study: str
    backend: Backend
    purpose: Purpose
    starts: tuple[tuple[PlannedRun, ...], ...]


_ASKED = TypeAdapter(PlannedStart)


def ask(study: Path, purpose: Purpose, backend: Backend) -> str:
    """Return the needs of a study's first round, as JSON."""
    from forecasting.inputs import inputs_of_study
    from studies.study import read_study

    read = read_study(study)
    wanted = [
        required_run
        for required_run in required_runs(read, backend, inputs_of_study(read))
        if required_run.purpose == purpose
    ]
    grouped = [tuple(replace(run, start=None) for run in start) for start in group_by_start(wanted)]
    plan = PlannedStart(study=read.name, backend=backend, purpose=purpose, starts=tuple(grouped))
    return _ASKED.dump_json(plan, indent=1).decode()


def measure(plan: PlannedStart, folder: Path, most_s: float, repeat: int = 1) -> None:
    """Measure needs in their order, and keep each result as a folder of its run."""
    started_s = time.monotonic()
    with TemporaryDirectory() as scratch:
        context = RunContext(plan.study, repeat, plan.purpose, Path(scratch))
        for number, start in enumerate(plan.starts, 1):
            left_s = most_s - (time.monotonic() - started_s)
            if left_s < 0:
                say(f"no time for {len(plan.starts) - number + 1} of {len(plan.starts)} starts")
                return
            say(f"{number}/{len(plan.starts)}, {left_s:.0f} s left: {start[0].title}")
            link_mbps = start[0].subject.link_mbps
            with open_cluster(plan.backend, nodes_of(start), link_mbps) as cluster:
                for _, result in measure_planned_runs(
                    PROBES[start[0].probe], cluster, start, context, print
                ):
                    keep(result, folder)


def keep(result: ProbeResult, folder: Path) -> None:
    """Write a run as JSON, and its tables as Parquet."""
    own = folder / result.run.run_id
    own.mkdir(parents=True)
    (own / "run.json").write_text(result.run.model_dump_json())
    if result.scenario is not None:
        (own / "scenario.json").write_text(result.scenario.model_dump_json())
    for name, frame in result.tables.items():
        frame.write_parquet(own / f"{name}.parquet")
    if result.run.error:
        say(f"failed: {result.run.error}")


def land_all(folder: Path, landing: Path) -> int:
    """Land all runs that came back and have not landed yet; return how many."""
    from warehouse.landing import land

    count = 0
    for own in sorted(path.parent for path in folder.glob("*/run.json")):
        if (landing / own.name).exists():
            continue
        run = Run.model_validate_json((own / "run.json").read_text())
        about = own / "scenario.json"
        scenario = Scenario.model_validate_json(about.read_text()) if about.is_file() else None
        tables = {file.stem: pl.read_parquet(file) for file in sorted(own.glob("*.parquet"))}
        land(landing, run, scenario, tables)
        count += 1
    return count


def say(text: str) -> None:
    """Tell what goes on."""
    sys.stderr.write(f"{text}\n")


def main(words: Sequence[str] | None = None) -> None:
    """Ask, measure or land."""
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    asking = verbs.add_parser("ask")
    asking.add_argument("study", type=Path)
    asking.add_argument("purpose", choices=("profile", "measurement"))
    asking.add_argument("backend")
    measuring = verbs.add_parser("measure")
    measuring.add_argument("asked", type=Path)
    measuring.add_argument("folder", type=Path)
    measuring.add_argument("--most-s", type=float, default=300.0)
    measuring.add_argument("--round", type=int, default=1)
    landing = verbs.add_parser("land")
    landing.add_argument("folder", type=Path)
    landing.add_argument("landing", type=Path)
    arguments = parser.parse_args(words)
    if arguments.verb == "ask":
        text = ask(arguments.study, arguments.purpose, arguments.backend)
        starts = _ASKED.validate_json(text).starts
        runs = [run for start in starts for run in start]
        expected_s = sum(start[0].start_s for start in starts) + sum(run.expected_s for run in runs)
        say(f"{len(runs)} runs, about {expected_s:.0f} s there")
        sys.stdout.write(text)
    elif arguments.verb == "measure":
        plan = _ASKED.validate_json(arguments.asked.read_text())
        measure(plan, arguments.folder, arguments.most_s, arguments.round)
    else:
        say(f"{land_all(arguments.folder, arguments.landing)} landed")


if __name__ == "__main__":
    main()
