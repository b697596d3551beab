"""The loader: the only writer of `raw.*`. Loading a run twice changes nothing.

A run is checked in chunks of `tables.CHUNK_ROWS` rows, then DuckDB reads its Parquet files itself:
memory is bounded by `MEMORY`, not by the size of a run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from glob import escape
from pathlib import Path

import duckdb

from warehouse import chain, journal
from warehouse.connection import first_line, is_damage, is_of_machine
from warehouse.durable_files import sweep
from warehouse.journal import NOT_LOADED, JournalTransaction
from warehouse.landed_files import check_plain, verify
from warehouse.landing import QUARANTINE, QuarantinedRun, checked_files, run_folders, set_aside
from warehouse.records import BadInput, StepcastError, content_hash
from warehouse.tables import SCHEMAS, columns_of, one_line

MEMORY = "1GB"
"""What DuckDB may hold while it loads; past that it writes to disk. Whoever connects sets it."""
OPERATION_TIME = (Path(__file__).parent / "operation_time.sql").read_text()


_LoadedFiles = tuple[str, str | None]
"""What the warehouse holds of a run: names, sizes and times of its files hashed, their SHA-256."""


@dataclass
class LoadReport:
    """What a load has done: run ids loaded, how many were already there, what was not loaded."""

    loaded: tuple[str, ...] = ()
    unchanged: int = 0
    quarantined: tuple[QuarantinedRun, ...] = ()

    @property
    def not_loaded(self) -> list[str]:
        """Lines that say which runs were not loaded, why, and how they are tried again."""
        aside = [run for run in self.quarantined if run.folder.parent.name == QUARANTINE]
        lines = [f"{run.run_id} was set aside: {run.reason}" for run in aside]
        if aside:
            lines[-1] += f"; see {aside[-1].folder.parent}"
            lines.append(
                "to try one again, move its folder back to landing/ and run `stepcast load`"
            )
        return lines + [
            f"{run.run_id} was not loaded and stays in {run.folder.parent}, where the next "
            f"`stepcast load` tries it again: {run.reason}"
            for run in self.quarantined
            if run not in aside
        ]


def load(
    landing: Path,
    connection: duckdb.DuckDBPyConnection,
    *,
    recheck: bool = True,
    report: LoadReport | None = None,
) -> LoadReport:
    """Load each landed run that is new or has changed, in one transaction per run.

    Without `recheck`, files of runs that were loaded are not looked at. A `report` that is given
    has what was done also where the load ends with an error.

    A run that cannot be loaded moves to `landing/quarantine/` with a `reason.txt`; the others still
    load. One that the machine cannot read, or has no memory for, stays where it is.

    Raises:
        StepcastError: the warehouse itself is damaged.
        duckdb.Error, OSError: the machine cannot write the warehouse. No run is to blame for that,
            and all stay where they are.
    """
    report = report or LoadReport()
    sweep(landing)
    known = loaded_files(connection)
    for folder in run_folders(landing):
        before = known.get(folder.name)
        if not recheck and before is not None and before[0] != NOT_LOADED:
            report.unchanged += 1
            continue
        try:
            signature = signature_of(folder)
            if before is not None and _is_same(connection, folder, signature, before):
                report.unchanged += 1
                continue
            _load(connection, folder, signature, before)
        except Exception as error:
            if not folder.exists():
                continue  # renamed meanwhile: the next load finds it under its new name
            if not _of_the_run(error, folder):
                raise
            report.quarantined += (_set_aside(folder, error),)
        else:
            report.loaded += (folder.name,)
    return report


def loaded_files(connection: duckdb.DuckDBPyConnection) -> Mapping[str, _LoadedFiles]:
    """Return the signature and the SHA-256 of each run's files, as the warehouse holds them."""
    rows = connection.execute(
        "SELECT run_id, signature, landed.landed_sha256 FROM meta.loaded "
        "JOIN meta.landed AS landed USING (run_id)"
    ).fetchall()
    return {run_id: (signature, sha256) for run_id, signature, sha256 in rows}


def _is_same(
    connection: duckdb.DuckDBPyConnection, folder: Path, signature: str, known: _LoadedFiles
) -> bool:
    """Tell whether the files of a run are those that were loaded, whatever their times are."""
    known_signature, landed_sha256 = known
    if known_signature == signature:
        return True
    if known_signature == NOT_LOADED or landed_sha256 is None:
        return False
    check_plain(folder)
    if verify(folder) != landed_sha256:
        return False
    connection.execute(
        "UPDATE meta.loaded SET signature = ? WHERE run_id = ?", [signature, folder.name]
    )
    return True


def _load(
    connection: duckdb.DuckDBPyConnection, folder: Path, signature: str, known: _LoadedFiles | None
) -> None:
    files, landed_sha256 = checked_files(folder)
    with journal.entry(connection) as entry:
        if known is not None and _has_rows(connection, folder.name):
            _delete(connection, folder.name)
        _insert(connection, files)
        _remember(entry, folder.name, signature, landed_sha256, known)


def _of_the_run(error: Exception, folder: Path) -> bool:
    """Tell whether an error is about one run, so that the others may still load."""
    if isinstance(error, StepcastError):
        return isinstance(error, BadInput)
    if is_damage(error) or isinstance(error, duckdb.InterruptException):
        return False
    lacks_memory = isinstance(error, MemoryError | duckdb.OutOfMemoryException)
    return not is_of_machine(error) or lacks_memory or str(folder) in str(error)


def _has_rows(connection: duckdb.DuckDBPyConnection, run_id: str) -> bool:
    """Tell whether rows of a run are there; none are in a warehouse that is built again."""
    query = "SELECT 1 FROM raw.run WHERE run_id = ? LIMIT 1"
    return connection.execute(query, [run_id]).fetchone() is not None


def _delete(connection: duckdb.DuckDBPyConnection, run_id: str) -> None:
    for name in SCHEMAS:
        connection.execute(f'DELETE FROM raw."{name}" WHERE run_id = ?', [run_id])


def _remember(
    entry: JournalTransaction,
    run_id: str,
    signature: str,
    landed_sha256: str,
    known: _LoadedFiles | None,
) -> None:
    """Note the load in the chain.

    A run that was loaded before keeps its number in the order of things; other files of it are
    noted as a later edition.
    """
    row = {"run_id": run_id, "landed_sha256": landed_sha256, "loaded_at": datetime.now(UTC)}
    if known is None:
        chain.append(entry, "meta.loaded", [row | {"signature": signature}])
        return
    entry.connection.execute(
        "UPDATE meta.loaded SET signature = ?, loaded_at = if(signature = ?, loaded_at, ?) "
        "WHERE run_id = ?",
        [signature, NOT_LOADED, row["loaded_at"], run_id],
    )
    if known == (NOT_LOADED, None):
        return  # its row is older than these sums, and says nothing of them
    if known[1] != landed_sha256:
        chain.append(entry, "meta.reloaded", [row])


def _insert(connection: duckdb.DuckDBPyConnection, files: Sequence[Path]) -> None:
    run_id = files[0].parent.name
    # DuckDB takes * and [ in a path for a pattern unless they are escaped.
    paths = {file.stem: escape(str(file)) for file in files}
    for file in files:
        columns = ", ".join(f'"{column}"' for column in columns_of(file))
        connection.execute(
            f'INSERT INTO raw."{file.stem}" BY NAME SELECT {columns} '
            "FROM read_parquet($file, hive_partitioning = false)",
            {"file": paths[file.stem]},
        )
    if "timing" in paths and "operation_time" not in paths:
        connection.execute(
            "INSERT INTO raw.operation_time BY NAME "
            "WITH timing AS (FROM read_parquet($file, hive_partitioning = false)) "
            f"SELECT $run_id AS run_id, * FROM ({OPERATION_TIME})",
            {"run_id": run_id, "file": paths["timing"]},
        )


def signature_of(folder: Path) -> str:
    """Tell changed files from unchanged ones without reading them: names, sizes, times."""
    states = [(file.name, file.stat()) for file in sorted(folder.glob("*.parquet"))]
    return content_hash(str([(name, state.st_size, state.st_mtime_ns) for name, state in states]))


def _set_aside(folder: Path, error: Exception) -> QuarantinedRun:
    reason = _reason(error)
    if is_of_machine(error):
        return QuarantinedRun(folder.name, reason, folder)
    return set_aside(folder, folder.name, reason)


def _reason(error: Exception) -> str:
    if isinstance(error, BadInput | duckdb.Error):
        return first_line(error)
    if isinstance(error, OSError):
        return f"the machine cannot read it: {one_line(error)}"
    if isinstance(error, MemoryError):
        return "it needs more memory than this machine has"
    return f"unexpected {type(error).__name__}: {one_line(error)}"
