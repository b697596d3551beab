"""What can be asked about, and what the history holds: lists, ready queries, judged forecasts."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from statistics import fmean
from threading import Lock
from typing import get_args

import polars as pl

import networks
from forecasting.forecast import fit_for_scenario
from forecasting.history_scope import host_here
from forecasting.inputs import systems_named
from models.gpu_step.system import GPU_STEP, GpuStepModel
from networks.catalogue import family
from networks.own_huggingface import named_configs
from networks.own_model import traced_targets
from pipelines.cli.node_types import node_type_rows
from pipelines.cli.query import parameter, ready_queries
from pipelines.service import contracts
from pipelines.support import supported
from profilers.clusters.node_types import GPU
from studies.curve import Curve
from warehouse import limits, records
from warehouse.child_process import bound
from warehouse.history import PublishedHistory
from warehouse.home import CHECKOUT, HISTORY, home
from warehouse.records import BadInput, Scenario
from warehouse.warehouse import Warehouse

MOST_ROWS = 10_000
"""Of an answer about the history; the rest is counted."""
_LOOK_S = 0.02
"""How often a statement of SQL is looked at."""


def node_types() -> contracts.Rows:
    """Return the node types that questions can name, as `stepcast node-types` lists them."""
    history = PublishedHistory(home()) if (home() / HISTORY).exists() else None
    return _rows(pl.DataFrame(node_type_rows(history), infer_schema_length=None))


def support(allows_sql: bool) -> contracts.Support:
    """Return what can be asked."""
    frameworks: dict[str, list[str]] = {}
    for framework in ("pytorch", "tensorflow"):
        for name in networks.names(framework):
            frameworks.setdefault(name, []).append(framework)
    types = ((name, supported().get(name)) for name in _model_types())
    models = [
        *named_configs().items(),
        *(
            (name, known.trained if known else "type with its defaults")
            for name, known in types
            if known is None or known.is_answered
        ),
    ]
    return contracts.Support(
        networks=[
            contracts.NetworkChoice(name=name, kind=family(name), frameworks=of_network)
            for name, of_network in sorted(frameworks.items())
        ],
        traced=traced_targets(Path.cwd()),
        models=[contracts.ModelChoice(name=name, words=words) for name, words in models],
        precisions=list(get_args(records.Precision)),
        optimizers=list(get_args(records.Optimizer)),
        regions=_regions(),
        systems=[system.name for system in systems_named(())],
        sql=allows_sql,
    )


def _regions() -> list[str]:
    """Return the regions of which prices were observed."""
    if not (home() / HISTORY).exists():
        return []
    return PublishedHistory(home()).query("prices_as_of")["region"].drop_nulls().unique().to_list()


@cache
def _model_types() -> list[str]:
    """Return the types of models of Hugging Face, read of its library, which takes long to load."""
    library = find_spec("transformers")
    if library is None or not library.submodule_search_locations:
        return []
    auto = Path(library.submodule_search_locations[0]) / "models" / "auto"
    pairs = (
        re.findall(r'\("([\w-]+)", "\w+Config"\)', file.read_text()) for file in auto.glob("*.py")
    )
    return sorted(set(chain.from_iterable(pairs)))


def queries() -> contracts.Queries:
    """Return the queries that come with Stepcast, with their SQL."""
    return contracts.Queries.model_validate({"queries": list(ready_queries())})


def query(name: str, params: Mapping[str, str]) -> str:
    """Return the rows of a query of Stepcast's, as JSON.

    Raises:
        BadInput: there is no such query or parameter.
    """
    given = dict(parameter(f"{key}={value}") for key, value in params.items())
    return _rows(PublishedHistory(home()).query(name, **given)).model_dump_json()


def sql(statement: str) -> str:
    """Return the rows of a SELECT by `stepcast sql`, a process: read-only, as bounded; as JSON.

    Raises:
        BadInput: it is none, or needs too much.
    """
    words = [sys.executable, "-m", "pipelines.cli.main", "sql", "--format", "json", "--", statement]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(
            bound(words),
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
        )
        until_s = time.monotonic() + limits.ANSWER_S
        try:
            while (code := child.poll()) is None and time.monotonic() < until_s:
                if os.fstat(out.fileno()).st_size > limits.ANSWER_BYTES:
                    break
                time.sleep(_LOOK_S)
        finally:
            child.kill()
            child.wait()
        if os.fstat(out.fileno()).st_size > limits.ANSWER_BYTES:
            raise BadInput(
                f"the answer has more than {limits.ANSWER_BYTES >> 20} MiB; ask for less"
            )
        if code is None:
            raise BadInput(f"the statement takes more than {limits.ANSWER_S:g} s")
        for file in (out, errors):
            file.seek(0)
        if code:
            raise BadInput(errors.read(4096).decode(errors="replace").strip() or f"exit {code}")
        rows = json.load(out)
    columns = list(rows[0]) if rows else []
    return contracts.Rows(
        columns=columns,
        rows=[list(row.values()) for row in rows[:MOST_ROWS]],
        left_out=max(len(rows) - MOST_ROWS, 0),
    ).model_dump_json()


_COVERAGE_LOCK = Lock()


def covered() -> str:
    """Return where forecasts were judged, as JSON made once for each state of the history."""
    history = home() / HISTORY
    with _COVERAGE_LOCK:
        modified_ns = history.stat().st_mtime_ns if history.exists() else 0
        return _coverage_as_of(history.parent, modified_ns)


@lru_cache(maxsize=1)
def _coverage_as_of(place: Path, modified_ns: int) -> str:
    """Return the coverage of a home, kept until its history is another."""
    return _coverage(PublishedHistory(place)).model_dump_json()


def _rows(frame: pl.DataFrame) -> contracts.Rows:
    return contracts.Rows(
        columns=frame.columns,
        rows=[list(row) for row in frame.head(MOST_ROWS).iter_rows()],
        left_out=max(frame.height - MOST_ROWS, 0),
    )


_ANY_STEP = {"dnn": "small_cnn", "framework": "pytorch", "batch_size": 8, "image_size": 64}


def _coverage(warehouse: Warehouse) -> contracts.Coverage:
    """Return the cells that have a judged case: of this home's runs, and of public measurements."""
    cases: dict[tuple[str, str, str, str], list[contracts.Case]] = defaultdict(list)
    for key, case in [*_of_history(warehouse), *_of_public(warehouse)]:
        cases[key].append(case)
    return contracts.Coverage(
        cells=[
            contracts.Cell(
                kind=kind,
                board=board,
                precision=precision,
                system=system,
                n=len(of_cell),
                error_percent=fmean(abs(case.error_percent) for case in of_cell),
                cases=sorted(of_cell, key=lambda case: -abs(case.error_percent)),
            )
            for (kind, board, precision, system), of_cell in sorted(cases.items())
        ]
    )


Keyed = tuple[tuple[str, str, str, str], contracts.Case]


def _of_history(warehouse: Warehouse) -> Iterator[Keyed]:
    """Yield scenarios that were measured, as systems forecast them that reports are about."""
    primary = {system.name for system in systems_named(()) if system.beside or system.tells}
    for row in warehouse.kept_query("judged_scenarios").to_dicts():
        if row["system"] in primary:
            scenario = Scenario.model_validate_json(row["canonical"])
            load = scenario.workload
            board = " + ".join(dict.fromkeys(each.node_type for each in scenario.worker_groups))
            yield (
                (family(load.dnn), board, load.precision, row["system"]),
                contracts.Case(
                    label=row["label"],
                    error_percent=row["error_percent"],
                    left_out=row["split"],
                    judged=row["judged_n"],
                ),
            )


def _of_public(warehouse: Warehouse) -> Iterator[Keyed]:
    """Yield steps and passes that others measured, as fits without them forecast them."""
    curve = Curve.model_validate({**_ANY_STEP, "strategy": "single", "worker": f"{GPU}h100"})
    fitted = fit_for_scenario(warehouse, GPU_STEP, curve, host_here())
    if not isinstance(fitted, GpuStepModel):
        return
    for case in fitted.judged:
        yield (
            (
                family(case.family.lower().replace("-", "")),
                case.device,
                case.precision,
                GPU_STEP.name,
            ),
            contracts.Case(
                label=f"{case.network}, batch {case.batch}",
                error_percent=100 * (case.forecast_s / case.measured_s - 1),
                left_out=case.left_out,
                forecast_s=case.forecast_s,
                measured_s=case.measured_s,
            ),
        )
