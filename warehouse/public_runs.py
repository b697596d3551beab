"""Runs that are given to others: what was measured, without names of hosts, files and accounts."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from warehouse.landing import land, landed_run, read_tables
from warehouse.records import BadInput, Run, Scenario, content_hash

LEFT_OUT = ("instance_type", "judgement", "price", "rented", "runtime_event")
"""Tables about accounts, bills and what happened to nodes."""
_HOST_FACTS = ("cpu", "cores", "gpu", "instruction_sets", "memory_gib")
_SETTINGS = ("asked", "congestion_control", "left_out", "library", "mapping", "worker")
"""Settings that are words; numbers are kept, other words are not."""
STRIPPED = (
    "names and addresses of nodes",
    f"of the host all but {', '.join(_HOST_FACTS)}",
    f"settings in words but {', '.join(_SETTINGS)}",
    "names and addresses of files, and sources of traces",
    f"tables {', '.join(LEFT_OUT)}",
)
"""What is not given to others."""


def is_own(run: Run) -> bool:
    """Tell whether one measured a run oneself: it is no import but of an own node type."""
    return run.backend != "imported" or "worker" in run.config


def strip(landing: Path, run_ids: Iterable[str], target: Path, names: Iterable[str]) -> None:
    """Land runs anew without `STRIPPED`.

    Args:
        landing: where they have landed.
        run_ids: which of them.
        target: a folder that gets them, to be packed.
        names: of hosts, none of which is left anywhere.

    Raises:
        BadInput: a name is left in what has to stay, such as the name of a node type.
    """
    pattern = "|".join(re.escape(name) for name in names)
    whole_name = rf"(?i)(^|[^a-z0-9])({pattern})([^a-z0-9]|$)" if pattern else "(?!)"
    for run_id in run_ids:
        run = _without_host(landed_run(landing / run_id))
        tables = read_tables(landing / run_id)
        scenario = None
        if "scenario" in tables:
            canonical = tables["scenario"]["canonical"][0].as_py()
            scenario = Scenario.model_validate_json(canonical)
        stripped = {
            name: _without_names(name, rows.drop_columns("run_id"), run)
            for name, rows in tables.items()
            if name not in ("run", "scenario", *LEFT_OUT)
        }
        for name, rows in {**stripped, "run": _as_table(run), **_scenario_table(scenario)}.items():
            if column := _named_in(rows, whole_name):
                raise BadInput(
                    f"run {run_id}: the name of a host is in {name}.{column}, which others need; "
                    "give the study, network or node type another name and measure again"
                )
        land(target, run, scenario, stripped)


def _without_host(run: Run) -> Run:
    config = {
        name: value
        for name, value in run.config.items()
        if not isinstance(value, str) or name in _SETTINGS
    }
    return run.model_copy(
        update={
            "host": {name: run.host[name] for name in _HOST_FACTS if name in run.host},
            "host_id": content_hash(f"given to others: {run.host_id}"),
            "config": config,
            "error": None,
        }
    )


def _without_names(name: str, rows: pa.Table, run: Run) -> pa.Table:
    """Return rows with what names nodes and files replaced."""
    replaced: Mapping[str, list[str | None]] = {}
    if name == "cluster_node":
        roles = rows["role"].to_pylist()
        replaced = {
            "node": [f"{role}{number}" for number, role in enumerate(roles)],
            "address": [""] * len(roles),
        }
    elif name == "source":
        told = f"a trace of {run.host.get('gpu', 'a GPU')}, given by whoever made it"
        replaced = {"file_name": [run.probe], "source": [told], "url": [None]}
    for column, values in replaced.items():
        place = rows.schema.get_field_index(column)
        rows = rows.set_column(place, rows.schema.field(place), pa.array(values, pa.string()))
    return rows


def _as_table(run: Run) -> pa.Table:
    words = {name: str(value) for name, value in run.model_dump().items()}
    return pa.table({name: [value] for name, value in words.items()})


def _scenario_table(scenario: Scenario | None) -> Mapping[str, pa.Table]:
    return {} if scenario is None else {"scenario": pa.table({"text": [scenario.canonical_json()]})}


def _named_in(rows: pa.Table, pattern: str) -> str | None:
    """Return the first column of text that a pattern is in."""
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        if is_text and pc.any(pc.match_substring_regex(column, pattern)).as_py():
            return str(name)
    return None
