"""A part of the public measurements, as fits see it: two networks and a few calls by themselves."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from models.gpu_step import own_traces, timed_collectives
from networks.gpu_steps import DataFlow, GpuStep, Operator, StepKey, Tensor
from warehouse.records import NodeGroup, Scenario, Strategy, TrainingWorkload
from warehouse.sets import kept_runs, kept_tables
from warehouse.tables import SCHEMAS

TABLES = (*own_traces.TABLES, *timed_collectives.TABLES)
PUBLIC = Path(__file__).parents[3] / "data" / "public"
NETWORKS = ("resnet50", "bert_base", "gpt2_small", "RegNetX-200MF")
_TAKEN = {"gpu_h100": 1, "pycls": 1, "neusight": 40, "transformer_operators_a100": 100}
"""Of calls by themselves, each so many'th."""


@cache
def public_tables() -> Mapping[str, pl.DataFrame]:
    """Return rows of `run`, `source` and `external` of some sets; other tables have none."""
    frames_by_table: dict[str, list[pl.DataFrame]] = {"run": [], "source": [], "external": []}
    for name, every in _TAKEN.items():
        for run in kept_runs(PUBLIC / name):
            tables = kept_tables(PUBLIC / name, run.run_id)
            for table, rows in frames_by_table.items():
                frame = pl.DataFrame(tables[table])
                if table == "external":
                    frame = _some(frame, every, str(run.config["mapping"]))
                rows.append(frame)
    empty = {name: pl.DataFrame(SCHEMAS[name].empty_table()) for name in ("sample", *TABLES)}
    return {name: pl.concat(rows) for name, rows in frames_by_table.items()} | empty


def _some(rows: pl.DataFrame, every: int, mapping: str) -> pl.DataFrame:
    network = pl.col("subject").str.json_path_match("$.network")
    if mapping in ("steps", "operations", "traces", "published"):
        return rows.filter(network.is_null() | network.is_in(NETWORKS))
    return rows.filter(pl.col("row_number") % every == 0)


def inventory_tables(node_type: str, **issue_s: float) -> Mapping[str, pl.DataFrame]:
    """Return `run` and `sample` of an inventory of three turns, the last ten times as slow."""
    plain = {"step": 1e-4, "parameter": 2e-6, "view": 1e-6, "elementwise": 5e-6}
    times_s = {**plain, "product": 8e-6, "normalization": 11e-6, **issue_s}
    rows = [
        ("an-inventory", f"inventory_issue_{kind}_s", turn, factor * seconds)
        for turn, factor in enumerate((1.0, 1.0, 10.0))
        for kind, seconds in times_s.items()
    ]
    rows.append(("an-inventory", "inventory_disk_Bps", 0, 1e9))
    samples = pl.DataFrame(rows, ["run_id", "metric", "window", "value"], orient="row")
    config = json.dumps({"worker": node_type})
    run = {"run_id": "an-inventory", "probe": "inventory", "status": "ok", "config": config}
    return {"run": pl.DataFrame(run), "sample": samples}


def scenario(node_type: str = "gpu.h100", **load: Any) -> Scenario:
    """Return training of a network on one device."""
    workload = {"dnn": "small_cnn", "framework": "pytorch", "image_size": 32, "batch_size": 8}
    return Scenario(
        workload=TrainingWorkload.model_validate({**workload, **load}),
        strategy=Strategy(kind="single", workers=1),
        nodes=(NodeGroup(role="worker", node_type=node_type, count=1),),
    )


def made_up_steps(wanted: Iterable[StepKey]) -> Mapping[StepKey, GpuStep]:
    """Return, for any network, three products, a sum and a view, larger with the batch."""
    return {key: _made_up(key) for key in wanted}


def _made_up(key: StepKey) -> GpuStep:
    dtype = key.precision.removesuffix("-true")
    left, right = Tensor((64 * key.batch_size, 1024), dtype), Tensor((1024, 1024), dtype)
    operators = (
        Operator("mm", (left, right), (left,)),
        Operator("add", (left, left), (left,)),
        Operator("t", (right,), (right,), view=True),
    )
    parameters_bytes, activation_bytes = 4 * 1024**2, 10 * left.bytes
    return GpuStep(
        operators,
        (0, 1, 2) * 3,
        (Tensor((1024**2,), "float32"),),
        peak_bytes=2 * parameters_bytes + activation_bytes,
        without_gradients_bytes=parameters_bytes + activation_bytes,
        activation_bytes=activation_bytes,
        units=(0, *[1024**2 // 4] * 4),
        flow=DataFlow(
            (*(0, 1, 2, 2, 2, 3, 1, 1), *(3, 1, 4, 4, 4, 5, 1, 1), *(5, 1, 6, 6, 6, 7, 1, 1)),
            forward=3,
            gradients=(7,),
            divided=(1, 7),
        ),
    )
