"""What `stepcast show` prints of a run."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from studies.origin import CODE_VERSION, COMMAND
from studies.settings import KEY
from warehouse.landing import ARTEFACTS
from warehouse.warehouse import Warehouse

_APART = (COMMAND, CODE_VERSION, KEY)
_NOT_KEPT = "not kept: the run is from before runs kept it"
_Row = Mapping[str, Any]


def lines_of(warehouse: Warehouse, run_id: str) -> Iterator[str]:
    """Yield all that is known of how a run was made, then what it measured."""
    (row,) = warehouse.query("one_run", run_id=run_id).to_dicts()
    config, software = json.loads(row["config"]), json.loads(row["software"])
    yield from _about(row)
    yield from _listed("settings asked for", json.loads(config.get(KEY) or "{}"))
    yield from _listed(
        "configuration", {name: value for name, value in config.items() if name not in _APART}
    )
    yield from _listed("environment", {"stepcast": row["code_version"] or _NOT_KEPT, **software})
    yield from _listed(f"host {row['host_id']}, {row['backend']}", json.loads(row["host"]))
    yield from _listed("price", dict(_prices(warehouse, row)))
    yield from _listed("artefacts", _files(warehouse.landing / run_id))
    if row["comparable_id"] is not None:
        figures = warehouse.query("figures", words=row["comparable_id"]).filter(run_id=run_id)
        yield from _listed("measured", dict(map(_figure, figures.to_dicts())))
        yield f"over time: stepcast history {row['comparable_id']}"


def _figure(one: _Row) -> tuple[str, str]:
    name = ", ".join(filter(None, (one["metric"], one["point"])))
    return name, f"{one['value']:.6g} {one['unit']}"


def _about(row: _Row) -> Iterator[str]:
    took_s = (row["ended_at"] - row["started_at"]).total_seconds()
    status = row["status"] if row["error"] is None else f"{row['status']}: {row['error']}"
    about = {
        "command": row["command"] or _NOT_KEPT,
        "study": f"{row['study']}, round {row['repeat']}",
        "probe": f"{row['probe']} ({row['purpose']})",
        "began": f"{row['started_at']:%Y-%m-%d %H:%M:%S} UTC, took {took_s:.1f} s",
        "status": status,
        "scenario": "none: of nodes and links" if row["canonical"] is None else row["canonical"],
    }
    yield from _listed(" ".join(filter(None, ("run", row["run_id"], row["label"]))), about)


def _prices(warehouse: Warehouse, row: _Row) -> Iterator[tuple[str, str]]:
    """Yield what the run cost, and what its node types cost an hour when it began."""
    cost = row["cost_usd"]
    yield "cost of the run", "nothing was paid" if cost is None else f"{cost:.4f} USD"
    for node_type in _node_types(row):
        as_of = row["started_at"].isoformat()
        for price in warehouse.query("prices_as_of", node_type=node_type, as_of=as_of).to_dicts():
            place = " ".join(filter(None, (price["region"], price["zone"], price["market"])))
            yield f"{node_type}, {place}", f"{price['usd_per_hour']:g} USD/hour ({price['source']})"


def _node_types(row: _Row) -> list[str]:
    scenario = json.loads(row["canonical"] or "{}")
    named = {node["node_type"] for node in scenario.get("nodes", ())}
    return sorted(named or filter(None, (row["node_type"] or "").split("+")))


def _files(folder: Path) -> dict[str, str]:
    """Return the files that landed with a run, and their sizes."""
    if not folder.is_dir():
        return {str(folder): "the folder is not here: the run landed elsewhere"}
    files = sorted(folder.glob(f"{ARTEFACTS}/*")) or sorted(folder.glob("*.parquet"))
    return {str(file): f"{file.stat().st_size:,} bytes" for file in files}


def _listed(title: str, values: Mapping[str, object]) -> Iterator[str]:
    if not values:
        return
    yield title
    widest = max(map(len, values))
    for name, value in values.items():
        yield f"  {name:<{widest}}  {value}"
