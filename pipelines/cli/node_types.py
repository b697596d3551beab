"""`stepcast node-types`: what node types have, what they cost, and what was measured of them."""

from collections.abc import Mapping
from typing import Annotated, Any

import polars as pl
import typer

from models.gpu_step.device import Device, device_of_node, devices
from pipelines.cli.query import Form, history_here
from pipelines.cli.tables import print_frame, print_rows, print_text
from profilers.clusters import node_types as catalogue
from profilers.clusters.fleet import FleetType
from profilers.clusters.node_types import NodeType
from studies.messages import count
from warehouse.history import PublishedHistory
from warehouse.home import HISTORY, home
from warehouse.records import BadInput


def node_types(
    gpu: Annotated[str | None, typer.Option(help="Only those whose GPU has this name.")] = None,
    form: Form = "table",
) -> None:
    """List the node types that studies can name.

    Shows GPUs, network, processors, memory, what an hour costs on demand, and what a forecast can
    rest on: runs measured here, public measurements of that GPU, or its data sheet alone. Prices
    and measurements are those of this home's history; the file declares the rest.

    Example: stepcast node-types --gpu a100
    """
    rows = node_type_rows(history_here() if (home() / HISTORY).exists() else None, gpu)
    if form != "table":
        print_frame(pl.DataFrame(rows, infer_schema_length=None), form)
        return
    print_rows([_cells(row) for row in rows], _NUMBERS)
    print_text(
        f"{count(len(rows), 'node type')}. `runs` were measured here; `public`: others timed "
        "operators on that GPU, and a forecast says of which part of a step; `sheet`: forecasts "
        "rest on its data sheet; `-`: nothing is known. Prices are on demand, the newest that was "
        "observed, else declared."
    )
    if not any(row["is_observed"] for row in rows):
        print_text(
            "No price of them was observed: `stepcast load public` brings those of EC2, "
            "`stepcast prices collect` asks AWS."
        )


def node_type_rows(
    history: PublishedHistory | None, gpu: str | None = None
) -> list[dict[str, Any]]:
    """Return what is known of each node type, or of those that have a GPU, by column.

    Raises:
        BadInput: none has it.
    """
    # What the fleet file says of a type of the catalogue is how it is used, not what it has.
    kinds: dict[str, NodeType | FleetType] = {**catalogue.fleet_types(), **catalogue.node_types()}
    if gpu is not None:
        kinds = {name: kind for name, kind in kinds.items() if gpu.lower() in str(kind.gpu).lower()}
        if not kinds:
            raise BadInput(f"--gpu {gpu}: no node type has it; `stepcast node-types` lists all")
    prices, runs = _prices(history), _runs(history)
    return [
        {
            "node_type": name,
            **_hardware(name, kind),
            "usd_per_hour": prices.get(name, getattr(kind, "usd_per_hour", None)),
            "is_observed": name in prices,
            **_evidence(name, kind, runs),
        }
        for name, kind in kinds.items()
    ]


_NUMBERS = {"Gb/s": "gbit_per_s", "cores": "cores", "GiB": "memory_gib", "$/h": "usd_per_hour"}
"""Titles of figures, and what they are in rows."""


def _cells(row: Mapping[str, Any]) -> dict[str, str]:
    """Return a row of the table."""
    if row["gpu"] is not None:
        has = " ".join(filter(None, (f"{row['gpus']} {row['gpu']}", row["gpu_link"])))
    else:
        has = row["isa"] or "-"
    runs = f"{row['runs']:,} " if row["runs"] else ""
    return {
        "node type": row["node_type"],
        "has": has,
        **{
            title: "-" if row[name] is None else f"{row[name]:.4g}"
            for title, name in _NUMBERS.items()
        },
        "evidence": f"{runs}{row['evidence'] or '-'}",
    }


def _device(name: str, kind: NodeType | FleetType) -> Device | None:
    """Return the data sheet of a node type's GPU."""
    return device_of_node(name) or devices().get((kind.gpu or "").lower().replace(" ", "-"))


def _hardware(name: str, kind: NodeType | FleetType) -> dict[str, Any]:
    """Return the columns of a machine, by name."""
    fields = kind.model_dump()
    device = None if kind.gpu is None else _device(name, kind)
    bandwidth_mbps, memory_bytes = fields.get("bandwidth_mbps"), kind.memory_bytes
    gib = None if memory_bytes is None else memory_bytes / 2**30
    return {
        "gpu": kind.gpu,
        "gpus": kind.gpus if kind.gpu is not None else 0,
        "gpu_link": fields.get("gpu_link"),
        "gpu_memory_gib": device and device.memory_bytes / 2**30,
        "efa": bool(fields.get("efa")),
        "isa": fields.get("isa"),
        "gbit_per_s": None if bandwidth_mbps is None else bandwidth_mbps / 1000,
        "cores": fields.get("cpu_share") or fields.get("vcpus") or kind.threads,
        "memory_gib": fields.get("memory_gib") or gib,
    }


def _prices(history: PublishedHistory | None) -> dict[str, float]:
    """Return the newest observed price on demand of each node type, US dollars per hour."""
    if history is None:
        return {}
    rows = history.query("prices_as_of", market="on_demand").filter("observed")
    newest = rows.sort("observed_at", "usd_per_hour", descending=[False, True])
    return dict(newest.select("node_type", "usd_per_hour").iter_rows())


def _runs(history: PublishedHistory | None) -> dict[str, int]:
    """Return how many runs there are: ours of each node type, others' of each GPU by its name."""
    counts: dict[str, int] = {}
    if history is None:
        return counts
    rows = history.query("node_type_evidence").select("node_type", "device", "runs")
    for node_type, device, runs in rows.iter_rows():
        if node_type is not None:
            counts[node_type] = runs
        elif (known := devices().get(device)) is not None:
            counts[known.name] = counts.get(known.name, 0) + runs
    return counts


def _evidence(name: str, kind: NodeType | FleetType, runs: Mapping[str, int]) -> dict[str, Any]:
    """Return on what a forecast about a node type can rest, the nearest first, and its runs."""
    if name in runs:
        return {"runs": runs[name], "evidence": "runs"}
    device = None if kind.gpu is None else _device(name, kind)
    if device is None:
        return {"runs": 0, "evidence": None}
    public = runs.get(device.name, 0)
    return {"runs": public, "evidence": "public" if public else "sheet"}
