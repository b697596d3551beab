"""From a file of somebody else to landed runs: identity, provenance, all files or none."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
from pydantic import Field

from models.gpu_step.device import Device, device_of_node, devices
from models.gpu_step.timed_collectives import rated
from profilers.clusters.node_types import node_group, node_types
from profilers.probe import Setting
from profilers.readers.contract import ImportedRun, ReaderOptions
from profilers.readers.csv_mapping import CsvMapping, find, load
from profilers.readers.formats import find_format
from warehouse.durable_files import scratch, sync
from warehouse.fields import nearest_names
from warehouse.landing import land, landed_run
from warehouse.records import BadInput, Purpose, Run, content_hash, error_context
from warehouse.tables import SCHEMAS

STUDY = "imported"
_OURS = {"run", "scenario", "source"}
"""Raw tables that say what a run is; imports fill them, mappings do not."""
_UNKNOWN_HOST = "imported"
_CALLED = {"kineto": "trace", "nccl-tests": "nccl-tests log", "iperf3": "iperf3 report"}
"""What a user calls a file of each format."""
_ROUNDED = 1.05
"""Bandwidths may be so many times as high as rated: sizes and times are rounded."""
_FAR = 10.0
_MOST_TOLD = 5
"""Kinds of things left out that the message names; `config` has all."""


class ImportOptions(ReaderOptions):
    """What `stepcast import` takes: also who measured, and where a file is from."""

    source: str | None = Field(default=None, description="Who measured it; a mapping may say.")
    licence: str | None = Field(default=None, description="Licence of the data.")
    url: str | None = Field(default=None, description="Where the file is from.")
    purpose: Purpose = Field(
        default="profile", description="Whether fits may see it, or it judges predictions."
    )


_PROVENANCE = ("source", "licence", "url")


@contextmanager
def land_staged(landing: Path) -> Iterator[Path]:
    """Yield a folder in which runs wait; they land if all goes well, and none if not."""
    landing.mkdir(parents=True, exist_ok=True)
    with scratch(landing) as folder:
        folder.mkdir()
        yield folder
        # The first run of a file says that the file is there, so it comes last.
        runs = sorted(folder.iterdir(), key=lambda run: int(run.name.rpartition("-")[2]))
        for run in reversed(runs):
            if not (landing / run.name).exists():
                os.rename(run, landing / run.name)
        sync(landing)


def import_file(path: Path, format_name: str, options: ImportOptions, staging: Path) -> str:
    """Stage the runs of one file, unless they have landed before; return a line about it.

    A run's id is the format and the hash of the file's content. The folder of `land_staged` is in
    that where runs land.

    Raises:
        BadInput: the file cannot be read, has no source, or landed with other options.
    """
    if not path.is_file():
        what = "a folder" if path.is_dir() else "no file" if path.exists() else "not there"
        raise BadInput(f"{path} is {what}; expected a file to import")
    with error_context(f"{path} cannot be read", OSError), path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    mapping = load(find(path, options.mapping)) if format_name == "csv" else None
    options = _completed(path, format_name, mapping, options)
    stem = f"imported-{format_name}-{sha256[:16]}"
    settings: dict[str, Setting] = {
        "purpose": options.purpose,
        "world_size": options.world_size,
        "mapping": content_hash(mapping.canonical_json()) if mapping else None,
        "worker": options.worker,
    }
    for folder in (staging.parent, staging):
        if (folder / f"{stem}-1").exists():
            _check_same(path, folder / f"{stem}-1", settings)
            return f"{path.name}: imported before as {stem}; nothing changed"
    rows: Counter[str] = Counter()
    runs = 0
    notes: list[str] = []
    left_out: Counter[str] = Counter()
    reader = find_format(format_name, options)
    for runs, imported in enumerate(reader.read(path, options), start=1):
        if options.worker is not None:
            told, more = _check_worker(path, format_name, options.worker, imported)
            config, told_notes = {**imported.config, **told}, (*imported.notes, *more)
            imported = replace(imported, config=config, notes=told_notes)
        run = _run(f"{stem}-{runs}", format_name, options.purpose, imported, settings)
        origin = _origin(format_name, path, sha256, options)
        with error_context(f"{path}"):
            land(staging, run, None, {**imported.tables, "source": origin})
        notes += imported.notes
        left_out.update(imported.left_out)
        rows.update({name: frame.height for name, frame in imported.tables.items()})
    counted = ", ".join(f"{count:,} rows of {name}" for name, count in rows.items())
    return (
        f"{path.name}: imported {counted} in {runs} run{'s' if runs > 1 else ''} "
        f"({stem}), source {options.source}{''.join(f'; {note}' for note in notes)}"
        f"{_left_out(left_out)}"
    )


def host_id(imported: ImportedRun) -> str:
    """Return the hash of what a file says of its machine."""
    return (
        content_hash(json.dumps(dict(imported.host), sort_keys=True))
        if imported.host
        else _UNKNOWN_HOST
    )


def _left_out(counted: Mapping[str, int]) -> str:
    """Say what the file has and the tables lack."""
    if not counted:
        return ""
    most = [f"{count:,} {what}" for what, count in Counter(counted).most_common(_MOST_TOLD)]
    more = len(counted) - len(most)
    return f"; left out: {', '.join(most)}{f' and {more} kinds more (config)' if more else ''}"


def _completed(
    path: Path, format_name: str, mapping: CsvMapping | None, given: ImportOptions
) -> ImportOptions:
    """Fill what the user did not say from the mapping, where the format has one."""
    if mapping is not None:
        tables = sorted(SCHEMAS.keys() - _OURS)
        if mapping.table not in tables:
            near = nearest_names(mapping.table, tables)
            meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(tables)}"
            raise BadInput(
                f"{path.name}: its mapping names the raw table {mapping.table!r:.60}; {meant}"
            )
        told = {name: getattr(given, name) or getattr(mapping, name) for name in _PROVENANCE}
        return given.model_copy(update=told)
    if given.worker is not None and not given.source:
        return given.model_copy(update={"source": f"your {_CALLED[format_name]} {path.name}"})
    if not given.source:
        raise BadInput(f"{path.name}: who measured it? Say so with --source")
    return given


def _check_same(path: Path, folder: Path, settings: dict[str, Setting]) -> None:
    before = json.loads(str(landed_run(folder).config["asked"]))
    differing = [name for name, value in settings.items() if before.get(name) != value]
    if differing:
        name, runs = differing[0], f"{folder.name.rpartition('-')[0]}-*"
        raise BadInput(
            f"{path.name}: imported before with {name} {before.get(name)}, now {settings[name]}; "
            f"to replace it, delete {folder.parent}/{runs} and import again"
        )


def _run(
    run_id: str,
    format_name: str,
    purpose: Purpose,
    imported: ImportedRun,
    settings: dict[str, Setting],
) -> Run:
    now = datetime.now(UTC)
    return Run(
        run_id=run_id,
        probe=format_name,
        purpose=purpose,
        study=STUDY,
        repeat=1,
        scenario_id=None,
        backend="imported",
        status="ok",
        started_at=imported.started_at or now,
        ended_at=imported.started_at or now,
        host_id=host_id(imported),
        host=dict(imported.host),
        software=dict(imported.software),
        config={
            **imported.config,
            "left_out": json.dumps(dict(imported.left_out), sort_keys=True),
            "asked": json.dumps(settings, sort_keys=True),
        },
    )


def _origin(format_name: str, path: Path, sha256: str, options: ImportOptions) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "format": [format_name],
            "file_name": [path.name],
            "sha256": [sha256],
            **{name: [getattr(options, name)] for name in _PROVENANCE},
            "imported_at": [datetime.now(UTC)],
        },
        schema_overrides={"licence": pl.String, "url": pl.String},
    )


def _check_worker(
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
        what = _CALLED[format_name]
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
