"""Files that one measured on a node type: are they of it, and what else does that tell?"""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from models.gpu_step.device import Device, device_of_node, devices
from models.gpu_step.own_clusters import rated
from profilers.clusters.node_types import node_group, node_types
from profilers.probe import Setting
from profilers.readers.contract import ImportedRun
from warehouse.records import BadInput

CALLED = {"kineto": "trace", "nccl-tests": "nccl-tests log", "iperf3": "iperf3 report"}
"""What a user calls a file of each format."""
_ROUNDED = 1.05
"""Bandwidths may be so many times as high as rated: sizes and times are rounded."""
_FAR = 10.0


def check_worker(
    path: Path, format_name: str, node_type: str, imported: ImportedRun
) -> tuple[Mapping[str, Setting], tuple[str, ...]]:
    """Return settings of a run that follow from its node type, and notes for the user.

    Raises:
        BadInput: there is no such node type with a GPU, or the file is of another.
    """
    node_group("worker", node_type, 1)
    board = device_of_node(node_type)
    if board is None:
        raise BadInput(f"--worker {node_type}: no data sheet of its GPU; `stepcast node-types`")
    settings: dict[str, Setting] = {"worker": node_type}
    if format_name == "iperf3":
        return settings, _check_links(path, node_type, imported.tables["link"])
    if format_name == "nccl-tests":
        if "gpu" in imported.host:
            _check_board(path, format_name, node_type, board, imported.host["gpu"])
        nodes = _nodes(path, node_type, imported.config)
        settings["nodes"] = nodes
        notes = _check_collectives(path, node_type, nodes, imported.tables["allreduce"])
        return settings, notes
    _check_board(path, format_name, node_type, board, imported.host.get("gpu"))
    return settings, ()


def _check_board(
    path: Path, format_name: str, node_type: str, board: Device, measured: str | None
) -> None:
    """Refuse a file of another GPU than its node type has, or of one that it does not name."""
    if devices().get(measured or "") != board:
        of = f"of {measured}" if measured else "of a GPU that it does not name (deviceProperties)"
        has = " or ".join(board.aliases) or board.name
        what = CALLED[format_name]
        raise BadInput(f"{path.name}: the {what} is {of}, and {node_type} has {has}; name its type")


def _nodes(path: Path, node_type: str, config: Mapping[str, Setting]) -> int:
    """Return on how many nodes a log's ranks were: whole nodes, where it does not list hosts."""
    ranks, gpus = int(config["world_size"] or 0), node_types()[node_type].gpus
    listed = config.get("nodes")
    nodes = int(listed) if listed else -(-ranks // gpus)
    if ranks % nodes or ranks > nodes * gpus or (not listed and nodes > 1 and ranks % gpus):
        where = f"on {nodes} hosts" if listed else "on hosts that it does not list"
        raise BadInput(
            f"{path.name}: {ranks} ranks {where} are none of {node_type}, which has {gpus} GPUs; "
            "name its type"
        )
    return nodes


def _check_collectives(
    path: Path, node_type: str, nodes: int, rows: pl.DataFrame
) -> tuple[str, ...]:
    """Refuse all-reduces that are faster than the links of a node type."""
    topology = rated(node_type, rows["world_size"][0] // nodes, nodes)
    links_Bps = [topology.link_bps] * (topology.devices > 1)
    links_Bps += [topology.network_bps] * (nodes > 1)
    best_Bps = (rows["size_bytes"] / rows["seconds"]).max()
    return _check_rate(path, node_type, "an all-reduce", float(str(best_Bps)), min(links_Bps))


def _check_links(path: Path, node_type: str, rows: pl.DataFrame) -> tuple[str, ...]:
    """Refuse links that are faster than the network of a node type."""
    trials = rows.group_by("direction", "flows", "trial").agg(pl.col("bandwidth_Bps").sum())
    best_Bps = float(str(trials["bandwidth_Bps"].max()))
    kind = node_types()[node_type]
    notes = _check_rate(path, node_type, "a link", best_Bps, kind.bandwidth_mbps * 1e6 / 8)
    if kind.efa:
        notes += (
            f"NCCL crosses EFA on {node_type}, and iperf3 measures TCP: no forecast rests on it",
        )
    return notes


def _check_rate(
    path: Path, node_type: str, what: str, best_Bps: float, rated_Bps: float
) -> tuple[str, ...]:
    found, most = f"{best_Bps / 1e9:.3g} GB/s", f"{rated_Bps / 1e9:.3g} GB/s"
    if best_Bps > _ROUNDED * rated_Bps:
        raise BadInput(
            f"{path.name}: {what} moves {found}, and {node_type} is rated {most}; name its type"
        )
    if best_Bps < rated_Bps / _FAR:
        return (f"{what} moves {found} at best, less than a tenth of the {most} of {node_type}",)
    return ()
