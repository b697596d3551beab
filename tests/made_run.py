"""A run that tests land: all of it that a test does not say is the same everywhere."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import polars as pl

from studies.curve import Curve
from warehouse.ledger import FitRecord
from warehouse.records import NodeGroup, Price, Run, Scenario, Strategy, TrainingWorkload
from warehouse.tables import SCHEMAS

BEGAN = datetime(2030, 1, 1, tzinfo=UTC)


def made_run(run_id: str, probe: str, began: datetime = BEGAN, **changes: object) -> Run:
    """Return a profile run of a study that was made up."""
    fields: dict[str, object] = {
        "run_id": run_id,
        "probe": probe,
        "purpose": "profile",
        "study": "made_up",
        "repeat": 1,
        "scenario_id": None,
        "backend": "emulated",
        "status": "ok",
        "started_at": began,
        "ended_at": began,
        "host_id": "host",
        "host": {"cpu": "x"},
        "software": {"torch": "2"},
        "config": {},
    }
    return Run.model_validate(fields | changes)


def made_fit(system: str, *run_ids: str, **changes: object) -> FitRecord:
    """Return the record of a fit to these runs."""
    fields: dict[str, object] = {
        "system": system,
        "model_version": "1",
        "parameters": {},
        "run_ids": run_ids,
        "row_filter": "all",
        "row_count": 2,
        "data_hash": "abc",
        "backend": "emulated",
        "host_id": "host-1",
        "code_version": "v1",
        "created_at": BEGAN,
    }
    return FitRecord.model_validate(fields | changes)


def worker_nodes(node_type: str, count: int = 1, **more: object) -> NodeGroup:
    """Return equal nodes that train."""
    fields = {"role": "worker", "node_type": node_type, "count": count}
    return NodeGroup.model_validate(fields | more)


def all_reduce(*nodes: NodeGroup, link_mbps: float | None = None, **workload: object) -> Scenario:
    """Return training on all of these nodes: of PyTorch, unless `workload` says otherwise."""
    load = {"dnn": "small_cnn", "framework": "pytorch", "image_size": 64, "batch_size": 8}
    return Scenario(
        workload=TrainingWorkload.model_validate(load | workload),
        strategy=Strategy(kind="all_reduce", workers=sum(group.count for group in nodes)),
        nodes=nodes,
        link_mbps=link_mbps,
    )


def served(
    *workers: NodeGroup, servers: int = 1, server: str = "emu.server", **fields: object
) -> Scenario:
    """Return asynchronous training of TensorFlow on these nodes; `fields` are of either record."""
    load = {"dnn": "small_cnn", "image_size": 64, "batch_size": 8}
    of_load = {name: fields.pop(name) for name in {*fields} & TrainingWorkload.model_fields.keys()}
    return Scenario.model_validate(
        {
            "workload": TrainingWorkload.model_validate(load | of_load),
            "strategy": {"workers": sum(group.count for group in workers), "servers": servers},
            "nodes": (*workers, NodeGroup(role="server", node_type=server, count=servers)),
            **fields,
        }
    )


def made_price(node_type: str, usd_per_hour: float, **changes: object) -> Price:
    """Return what somebody saw that a node costs."""
    seen = {"provider": "aws", "market": "on_demand", "observed_at": BEGAN, "source": "test"}
    fields = seen | {"node_type": node_type, "usd_per_hour": usd_per_hour}
    return Price.model_validate(fields | changes)


def ddp_curve(worker: str, workers: Sequence[int] = (1, 2), **changes: object) -> Curve:
    """Return a curve of PyTorch's all-reduce."""
    fields = {"dnn": "small_cnn", "framework": "pytorch", "strategy": "all_reduce"}
    sizes = {"image_size": 32, "batch_size": 8, "link_mbps": 500, "workers": list(workers)}
    return Curve.model_validate({**fields, **sizes, "worker": worker, **changes})


def raw_table(name: str, columns: str, rows: Iterable[Sequence[object]]) -> pl.DataFrame:
    """Return rows of a raw table: these of its columns, in the types that it gives them."""
    types = pl.DataFrame(SCHEMAS[name].empty_table()).schema
    names = columns.split()
    return pl.DataFrame(list(rows), {each: types[each] for each in names}, orient="row")


def judgement(**changes: object) -> pl.DataFrame:
    """Return what a watch found of steps, which take half as long again: a confirmed alarm."""
    row: dict[str, object] = {
        "node_type": "emu.avx2.1c",
        "metric": "watch_step_time_s",
        "unit": "s",
        "value": 0.3,
        "expected": 0.2,
        "change_percent": 50.0,
        "robust_z": 9.0,
        "earlier_n": 6,
        "outcome": "slower",
        "alarm": True,
        "confirmed": True,
        "watched": "probe",
        "confirmed_by": None,
    }
    schema = {"confirmed": pl.Boolean, "confirmed_by": pl.String}
    return pl.DataFrame([row | changes], schema_overrides=schema)
