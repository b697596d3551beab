"""From a file of somebody else to landed runs: identity, provenance, all files or none."""

import difflib
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from pipelines.worker_files import CALLED, check_worker
from profilers.probe import Setting
from profilers.readers.contract import ImportedRun, ReaderOptions
from profilers.readers.csv_mapping import CsvMapping, find, load
from profilers.readers.formats import find_format
from warehouse.durable_files import remove, sync, temporary
from warehouse.landing import land, landed_run
from warehouse.records import BadInput, Purpose, Run, content_hash
from warehouse.tables import SCHEMAS

STUDY = "imported"
_OURS = {"run", "scenario", "source"}
"""Raw tables that say what a run is; imports fill them, mappings do not."""
_UNKNOWN_HOST = "imported"
_MOST_TOLD = 5
"""Kinds of things left out that the message names; `config` has all."""


@dataclass(frozen=True)
class Provenance:
    """Who measured, under which licence, and where the file is from; None: not said."""

    source: str | None
    licence: str | None
    url: str | None


@dataclass(frozen=True)
class Staging:
    """Where runs wait until every file has been read, and where they land then."""

    folder: Path
    landing: Path


@contextmanager
def land_staged(landing: Path) -> Iterator[Staging]:
    """Land what is staged inside if all goes well, and nothing if not."""
    landing.mkdir(parents=True, exist_ok=True)
    folder = temporary(landing)
    folder.mkdir()
    try:
        yield Staging(folder, landing)
        # The first run of a file says that the file is there, so it comes last.
        for run in sorted(folder.iterdir(), key=_number, reverse=True):
            if not (landing / run.name).exists():
                os.rename(run, landing / run.name)
        sync(landing)
    finally:
        remove(folder)


def import_file(
    path: Path,
    format_name: str,
    options: ReaderOptions,
    given: Provenance,
    purpose: Purpose,
    staging: Staging,
) -> str:
    """Stage the runs of one file, unless they have landed before; return a line about it.

    A run's id is the format and the hash of the file's content.

    Raises:
        BadInput: the file cannot be read, has no source, or landed with other options.
    """
    if not path.is_file():
        what = "a folder" if path.is_dir() else "no file" if path.exists() else "not there"
        raise BadInput(f"{path} is {what}; expected a file to import")
    try:
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from error
    mapping = load(find(path, options.mapping)) if format_name == "csv" else None
    if options.worker is not None and not given.source:
        given = replace(given, source=f"your {CALLED[format_name]} {path.name}")
    provenance = _completed(path, mapping, given)
    stem = f"imported-{format_name}-{sha256[:16]}"
    settings: dict[str, Setting] = {
        "purpose": purpose,
        "world_size": options.world_size,
        "mapping": content_hash(mapping.canonical_json()) if mapping else None,
        "worker": options.worker,
    }
    for folder in (staging.landing, staging.folder):
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
            told, more = check_worker(path, format_name, options.worker, imported)
            config, told_notes = {**imported.config, **told}, (*imported.notes, *more)
            imported = replace(imported, config=config, notes=told_notes)
        run = _run(f"{stem}-{runs}", format_name, purpose, imported, settings)
        origin = _origin(format_name, path, sha256, provenance)
        try:
            land(staging.folder, run, None, {**imported.tables, "source": origin})
        except BadInput as error:
            raise BadInput(f"{path}: {error}") from error
        notes += imported.notes
        left_out.update(imported.left_out)
        rows.update({name: frame.height for name, frame in imported.tables.items()})
    counted = ", ".join(f"{count:,} rows of {name}" for name, count in rows.items())
    return (
        f"{path.name}: imported {counted} in {runs} run{'s' if runs > 1 else ''} "
        f"({stem}), source {provenance.source}{''.join(f'; {note}' for note in notes)}"
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


def _number(run: Path) -> int:
    return int(run.name.rpartition("-")[2])


def _completed(path: Path, mapping: CsvMapping | None, given: Provenance) -> Provenance:
    """Fill what the user did not say from the mapping, where the format has one."""
    if mapping is not None:
        _check_table(path, mapping.table)
        return Provenance(
            given.source or mapping.source,
            given.licence or mapping.licence,
            given.url or mapping.url,
        )
    if not given.source:
        raise BadInput(f"{path.name}: who measured it? Say so with --source")
    return given


def _check_table(path: Path, name: str) -> None:
    """Refuse a mapping whose table is none that measurements go to."""
    tables = sorted(SCHEMAS.keys() - _OURS)
    if name not in tables:
        near = difflib.get_close_matches(name, tables, n=1)
        meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(tables)}"
        raise BadInput(f"{path.name}: its mapping names the raw table {name!r:.60}; {meant}")


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


def _origin(format_name: str, path: Path, sha256: str, provenance: Provenance) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "format": [format_name],
            "file_name": [path.name],
            "sha256": [sha256],
            "source": [provenance.source],
            "licence": [provenance.licence],
            "url": [provenance.url],
            "imported_at": [datetime.now(UTC)],
        },
        schema_overrides={"licence": pl.String, "url": pl.String},
    )
