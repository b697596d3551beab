"""What can be asked about, and what the history holds: lists, ready queries, judged forecasts."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import get_args

import polars as pl

import networks
from forecasting.inputs import systems_named
from networks.catalogue import family
from networks.own_huggingface import named_configs
from networks.own_model import traced_targets
from pipelines.cli.node_types import node_type_rows
from pipelines.cli.query import parameter, ready_queries
from pipelines.service.contracts import (
    ModelChoice,
    NetworkChoice,
    Queries,
    QueryChoice,
    Rows,
    Support,
)
from pipelines.service.coverage import coverage
from pipelines.support import supported
from warehouse import limits, records
from warehouse.child_process import bound
from warehouse.history import PublishedHistory
from warehouse.home import CHECKOUT, HISTORY, home
from warehouse.records import BadInput

MOST_ROWS = 10_000
"""Of an answer about the history; the rest is counted."""
_LOOK_S = 0.02
"""How often a statement of SQL is looked at."""


def node_types() -> Rows:
    """Return the node types that questions can name, as `stepcast node-types` lists them."""
    history = PublishedHistory(home()) if (home() / HISTORY).exists() else None
    return _rows(pl.DataFrame(node_type_rows(history), infer_schema_length=None))


def support(allows_sql: bool) -> Support:
    """Return what can be asked."""
    frameworks: dict[str, list[str]] = {}
    for framework in ("pytorch", "tensorflow"):
        for name in networks.names(framework):
            frameworks.setdefault(name, []).append(framework)
    return Support(
        networks=[
            NetworkChoice(name=name, kind=family(name), frameworks=of_network)
            for name, of_network in sorted(frameworks.items())
        ],
        traced=traced_targets(Path.cwd()),
        models=[
            *(ModelChoice(name=name, words=words) for name, words in named_configs().items()),
            *(
                ModelChoice(name=name, words=known.trained if known else "type with its defaults")
                for name in _model_types()
                if (known := supported().get(name)) is None or known.is_answered
            ),
        ],
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


def queries() -> Queries:
    """Return the queries that come with Stepcast, with their SQL."""
    fields = ("name", "question", "params", "sql")
    choices = [dict(zip(fields, each, strict=True)) for each in ready_queries()]
    return Queries(queries=[QueryChoice(**choice) for choice in choices])


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
    return Rows(
        columns=columns,
        rows=[list(row.values()) for row in rows[:MOST_ROWS]],
        left_out=max(len(rows) - MOST_ROWS, 0),
    ).model_dump_json()


_COVERAGE_LOCK = Lock()
_COVERAGE: dict[int, str] = {}


def covered() -> str:
    """Return where forecasts were judged, as JSON made once for each state of the history."""
    with _COVERAGE_LOCK:
        history = home() / HISTORY
        modified_ns = history.stat().st_mtime_ns if history.exists() else 0
        if modified_ns not in _COVERAGE:
            _COVERAGE.clear()
            _COVERAGE[modified_ns] = coverage(PublishedHistory(home())).model_dump_json()
        return _COVERAGE[modified_ns]


def _rows(frame: pl.DataFrame) -> Rows:
    return Rows(
        columns=frame.columns,
        rows=[list(row) for row in frame.head(MOST_ROWS).iter_rows()],
        left_out=max(frame.height - MOST_ROWS, 0),
    )
