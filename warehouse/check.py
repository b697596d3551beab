"""Is the warehouse sound: the chain, every run against what has landed, row by row, the history."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import duckdb
import pyarrow as pa

from warehouse import chain, journal, ledger, limits
from warehouse.connection import first_line, is_damage, is_of_machine, writer_of
from warehouse.home import HISTORY, JOURNAL, MAIN
from warehouse.landed_files import read_plain, verify
from warehouse.landing import QUARANTINE, REASON, run_folders
from warehouse.loader import OPERATION_TIME, loaded_files, signature_of
from warehouse.publication import is_current, lag, open_published, same_bytes, versions
from warehouse.records import BadInput
from warehouse.tables import SCHEMAS, stream
from warehouse.upkeep import open_warehouse

Rows = tuple[int, int]
"""How many rows there are, and a sum of their hashes, whatever their order."""
_NONE: Rows = (0, 0)
_DERIVED = "operation_time"
# Sums of floating-point numbers depend on the order in which threads end.
_STATISTICS = ("mean_us", "median_us", "sd_us", "min_us", "p95_us")
_SAME = " AND ".join(
    f"abs(here.{name} - landed.{name}) <= 1e-9 * (1 + abs(landed.{name}))" for name in _STATISTICS
)
_UNLIKE = f"""
SELECT count(*) FROM (FROM raw.{_DERIVED} WHERE run_id = ?) AS here
FULL JOIN landed USING (operation)
WHERE here.steps IS DISTINCT FROM landed.steps OR NOT coalesce({_SAME}, false)
"""


def rows_here(connection: duckdb.DuckDBPyConnection) -> Mapping[str, Mapping[str, Rows]]:
    """Return what the database holds of each run, by table."""
    held: dict[str, dict[str, Rows]] = {}
    for table in SCHEMAS:
        query = f'SELECT run_id, {_compared_rows(table)} FROM raw."{table}" GROUP BY run_id'
        for run_id, count, hashes in connection.execute(query).fetchall():
            held.setdefault(run_id, {})[table] = (int(count), int(hashes))
    return MappingProxyType(held)


def differences(
    connection: duckdb.DuckDBPyConnection, files: Sequence[Path], held: Mapping[str, Rows]
) -> Iterator[str]:
    """Yield a line for each table of a run whose rows are not those of its landed `files`.

    Raises:
        BadInput: a file cannot be read.
        duckdb.Error: neither.
    """
    landed = {file.stem: _rows_landed(connection, file) for file in files}
    timings = [file for file in files if file.stem == "timing"]
    derived = {_DERIVED} - set(landed) if timings else set()  # the loader makes it of timing
    for table in sorted({*landed, *held} - derived):
        present, expected = held.get(table, _NONE), landed.get(table, _NONE)
        if present[0] != expected[0]:
            yield f"{expected[0]} rows of {table} landed, {present[0]} are here"
        elif present != expected:
            yield f"rows of {table} were changed: they are not those that landed"
    if derived:
        yield from _statistics(connection, timings[0], held.get(_DERIVED, _NONE)[0])


def _statistics(connection: duckdb.DuckDBPyConnection, timing: Path, count: int) -> Iterator[str]:
    with _as_table(connection, "timing", timing):
        expected = connection.execute(OPERATION_TIME).to_arrow_table()
    connection.register("landed", expected)
    row = connection.execute(_UNLIKE, [timing.parent.name]).fetchone()
    connection.unregister("landed")
    assert row is not None
    if row[0] or count != expected.num_rows:
        yield f"rows of {_DERIVED} were changed: they are not the statistics of timing"


def _rows_landed(connection: duckdb.DuckDBPyConnection, file: Path) -> Rows:
    with _as_table(connection, "incoming", file):
        row = connection.execute(f"SELECT {_compared_rows(file.stem)} FROM incoming").fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def _compared_rows(table: str) -> str:
    columns = ", ".join(f'"{column}"' for column in SCHEMAS[table].names)
    return f"count(*), coalesce(sum(hash({columns})), 0)"


@contextmanager
def _as_table(connection: duckdb.DuckDBPyConnection, name: str, file: Path) -> Iterator[None]:
    batches = (batch for chunk in stream(file) for batch in chunk.to_batches())
    reader = pa.RecordBatchReader.from_batches(SCHEMAS[file.stem], batches)
    connection.register(name, reader)
    try:
        yield
    finally:
        connection.unregister(name)


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be; `broken` if rows are wrong or may be lost."""

    text: str
    broken: bool = True


@dataclass(frozen=True)
class CheckReport:
    """What a check found, and what the warehouse holds, in one line."""

    findings: tuple[Finding, ...]
    summary: str

    @property
    def sound(self) -> bool:
        """Whether nothing is broken."""
        return not any(finding.broken for finding in self.findings)


def check(home: Path) -> CheckReport:
    """Look for what is lost, doubled or altered; changes nothing.

    While another process writes to the warehouse, what is published is looked at instead.

    Raises:
        BadInput: there is no warehouse, or newer code made it.
        WarehouseBusy: another process holds it.
    """
    main, history = home / MAIN, home / HISTORY
    writer = writer_of(main)
    opening = (
        open_warehouse(home, read_only=True)
        if writer is None
        else open_published(main, history, any_version=True)
    )
    with opening as connection:
        version, _ = versions(connection)
        if (behind := lag(connection)) is not None:
            text = f"it has {behind}; `stepcast load`"
            return CheckReport((Finding(text),), f"schema version {version}")
        findings = (
            *_ledger(connection),
            *_runs(connection, home / "landing"),
            *_rows(connection),
            *_quarantined(home / "landing"),
            *(_instead(writer) if writer else (*_journal(connection, home), *_history(home))),
        )
        return CheckReport(findings, _summary(connection, version))


def _ledger(connection: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    if (broken := ledger.verify(connection)) is not None:
        yield Finding(broken)
    lost = connection.execute(
        "SELECT fit_id, count(*), min(prediction_id) FROM pred.ledger "
        "ANTI JOIN fit.fit USING (fit_id) GROUP BY fit_id ORDER BY fit_id"
    ).fetchall()
    for fit_id, count, first in lost:
        yield Finding(f"fit {fit_id} is gone, which {count} predictions rest on (first: {first})")
    unseen = connection.execute(
        "SELECT fit_id, run_id FROM (SELECT fit_id, unnest(run_ids) AS run_id FROM fit.fit) "
        "ANTI JOIN raw.run USING (run_id) ORDER BY ALL"
    ).fetchall()
    for fit_id, run_id in unseen:
        yield Finding(f"run {run_id} is gone, which fit {fit_id} saw")


def _runs(connection: duckdb.DuckDBPyConnection, landing: Path) -> Iterator[Finding]:
    known = loaded_files(connection)
    held = rows_here(connection)
    folders = {folder.name: folder for folder in run_folders(landing)}
    for run_id, (signature, sha256) in sorted(known.items()):
        if run_id in folders:
            own = held.get(run_id, {})
            for text in _run(connection, folders[run_id], signature, sha256, own):
                yield Finding(f"run {run_id}{text}")
    if gone := sorted(set(known) - set(folders)):
        yield Finding(
            f"{len(gone)} loaded runs are not in {landing} any more (first: {gone[0]}): their rows "
            "are unchecked, for they cannot be compared with what landed",
            broken=False,
        )
    if unpinned := sorted(run for run, (_, sha256) in known.items() if sha256 is None):
        yield Finding(
            f"{len(unpinned)} runs are unpinned (first: {unpinned[0]}): loaded before the chain "
            "held what landed, so they are compared with what is in landing now; `touch` their "
            "run.parquet and `stepcast load` to pin that",
            broken=False,
        )
    if waiting := sorted(set(folders) - set(known)):
        yield Finding(
            f"{len(waiting)} landed runs are not loaded yet (first: {waiting[0]}); `stepcast load`",
            broken=False,
        )


def _run(
    connection: duckdb.DuckDBPyConnection,
    folder: Path,
    signature: str,
    sha256: str | None,
    held: Mapping[str, Rows],
) -> Iterator[str]:
    """Yield the ends of sentences that say what is wrong with a run."""
    try:
        is_touched = signature_of(folder) != signature
        is_other = sha256 not in (None, verify(folder))
        if is_touched and (is_other or sha256 is None):
            yield " has changed since it was loaded; `stepcast load`"
        elif is_other:
            yield ": its files are not those that were loaded, whose SHA-256 the chain holds"
        else:
            files = sorted(folder.glob("*.parquet"))
            for text in differences(connection, files, held):
                yield f": {text}"
    except (BadInput, duckdb.Error, pa.ArrowException, OSError) as error:
        if is_damage(error) or (is_of_machine(error) and str(folder) not in str(error)):
            raise
        yield f" is damaged in {folder.parent}: {first_line(error)}"


def _rows(connection: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    for table in SCHEMAS:
        orphans = connection.execute(
            f'SELECT run_id, count(*) FROM raw."{table}" ANTI JOIN meta.loaded USING (run_id) '
            "GROUP BY run_id ORDER BY run_id"
        ).fetchall()
        for run_id, count in orphans:
            yield Finding(f"{count} orphan rows in raw.{table} of run {run_id}, which is no run")
    for table in ("raw.run", "meta.loaded"):
        doubled = connection.execute(
            f"SELECT run_id, count(*) FROM {table} GROUP BY run_id HAVING count(*) > 1 ORDER BY ALL"
        ).fetchall()
        for run_id, count in doubled:
            yield Finding(f"run {run_id} is there {count} times in {table}")
    lacking = connection.execute(
        "SELECT run_id FROM meta.loaded ANTI JOIN raw.run USING (run_id) ORDER BY run_id"
    ).fetchall()
    for (run_id,) in lacking:
        yield Finding(f"run {run_id} counts as loaded, but raw.run lacks it")


def _quarantined(landing: Path) -> Iterator[Finding]:
    for folder in run_folders(landing / QUARANTINE):
        try:
            text = read_plain(folder / REASON, limits.DOCUMENT_BYTES)
            reason = " ".join(text.decode(errors="replace").split())
        except (BadInput, OSError):
            reason = "no reason was written"
        yield Finding(f"run {folder.name} is set aside in {folder.parent}: {reason}", broken=False)


def _journal(connection: duckdb.DuckDBPyConnection, home: Path) -> Iterator[Finding]:
    """Compare the journal with the chain of the database, and look for what is damaged in it."""
    folder, known = home / JOURNAL, journal.position(connection)
    newest, lost, links = 0, "", set[tuple[str, int, str]]()
    for read in journal.read(folder):
        if isinstance(read, str):
            lost = lost or read
            continue
        newest = read.position.number
        for table, rows in read.rows:
            if table in chain.KEYS and newest <= known.number:
                places = zip(rows["sequence"], rows["sha256"], strict=True)
                links |= {(table, int(str(place)), str(sha256)) for place, sha256 in places}
    if lost:
        yield Finding(f"{folder} is damaged: {lost}; `stepcast load` writes it anew")
    elif newest > known.number:
        yield Finding(
            f"{folder} has {newest - known.number} entries that {MAIN} lacks: a process was killed "
            "before it was done; `stepcast load` brings them"
        )
    elif newest < known.number or (not newest and chain.head(connection)[0]):
        yield Finding(f"{folder} lacks what {MAIN} holds; `stepcast load` writes it anew")
    elif apart := links ^ _links(connection):
        table, place, _ = min(apart, key=lambda link: link[1])
        yield Finding(
            f"{folder} and {MAIN} differ in row {place} of the ledger ({table}): one was changed"
        )


def _links(connection: duckdb.DuckDBPyConnection) -> set[tuple[str, int, str]]:
    tables = " UNION ALL ".join(
        f"SELECT '{table}', sequence, sha256 FROM {table}" for table in chain.KEYS
    )
    return set(connection.execute(tables).fetchall())


def _history(home: Path) -> Iterator[Finding]:
    if not is_current(home / MAIN, home / HISTORY):
        yield Finding(f"{HISTORY} is older than {MAIN}; `stepcast load` publishes it")
    elif not same_bytes(home / MAIN, home / HISTORY):
        yield Finding(
            f"{HISTORY} is damaged: its bytes are not those of {MAIN}; `stepcast load` publishes it"
        )


def _instead(writer: str) -> Iterator[Finding]:
    text = f"{writer} is writing to {MAIN}: what was published in {HISTORY} was checked instead"
    yield Finding(text, broken=False)


def _summary(connection: duckdb.DuckDBPyConnection, version: int) -> str:
    row = connection.execute(
        "SELECT (SELECT count(*) FROM meta.loaded), (SELECT count(*) FROM fit.fit), "
        "(SELECT count(*) FROM pred.ledger)"
    ).fetchone()
    assert row is not None
    return f"{row[0]} runs, {row[1]} fits, {row[2]} predictions, schema version {version}"
