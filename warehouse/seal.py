"""Sealed forecasts: rows of the ledger, published as a file before their subjects are measured.

Such a file has the head of the chain: whoever has seen it can tell later that no forecast of that
warehouse was changed, put in or removed. Forecasts of a file are judged as they were published, by
runs that began later.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from warehouse import journal, limits
from warehouse.chain import head
from warehouse.connection import first_line, is_damage
from warehouse.durable_files import scratch, sync
from warehouse.fields import checked_name
from warehouse.landed_files import check_plain
from warehouse.records import BadInput, Scenario, StepcastError, content_hash, error_context
from warehouse.tables import check_values, stream_as

FOLDER = "forecasts"
"""Of a folder of kept runs: its sealed forecasts."""
_ROWS = """
SELECT
    prediction_id, system, model_version, fit_id, scenario_id, label, canonical, backend, host_id,
    study, repeat, metric, unit, "value", low, high, code_version, made_at, "sequence", sha256,
    $sealed_at AS sealed_at, $chain_sequence AS chain_sequence, $chain_sha256 AS chain_sha256,
    $file AS file, run_ids
FROM pred.ledger
JOIN (SELECT fit_id, run_ids FROM fit.fit) USING (fit_id)
JOIN subject ON subject.scenario_id = subject_id
WHERE subject_kind = 'scenario' AND study = $study AND repeat = $repeat
QUALIFY "sequence" = max("sequence") OVER (PARTITION BY system, subject_id, metric)
ORDER BY "sequence"
"""
_LATER = {"run_ids"}
"""Columns that files of earlier versions lack."""
_MEASURED = """
SELECT count(DISTINCT scenario_id) FROM report.measured
WHERE study = $study AND repeat = $repeat
"""


def seal(
    connection: duckdb.DuckDBPyConnection,
    study: str,
    repeat: int,
    subjects: Iterable[Scenario],
    folder: Path,
    sealed_at: datetime,
) -> tuple[Path, int]:
    """Write the newest forecasts of a round to a file; return its path and how many it has.

    Args:
        connection: to the warehouse.
        study: its name.
        repeat: number of the round.
        subjects: the scenarios of the study; the warehouse has no words of what nobody measured.
        folder: where the file is written.
        sealed_at: what time it is.

    Raises:
        BadInput: there is none, something of the round has been measured, or it is sealed already.
        StepcastError: the file could not be written; nothing of it is left.
    """
    checked_name(study, "study")
    path = folder / f"{study}.{repeat}.parquet"
    if path.exists():
        raise BadInput(f"{path} is there already: forecasts are sealed once; see what it has first")
    about = {"study": study, "repeat": repeat}
    (measured,) = connection.execute(_MEASURED, about).fetchone() or (0,)
    if measured:
        raise BadInput(
            f"{measured} scenarios of round {repeat} of study {study} are measured in this home; "
            "seal forecasts before their measurements are loaded"
        )
    sequence, sha256 = head(connection)
    stamp = {"sealed_at": sealed_at, "chain_sequence": sequence, "chain_sha256": sha256}
    words = [
        {
            "scenario_id": subject.scenario_id,
            "label": subject.label,
            "canonical": subject.canonical_json(),
        }
        for subject in dict.fromkeys(subjects)
    ]
    connection.register("subject", pa.Table.from_pylist(words))
    try:
        rows = connection.execute(_ROWS, {**about, **stamp, "file": path.name}).to_arrow_table()
    finally:
        connection.unregister("subject")
    if not rows.num_rows:
        raise BadInput(f"no forecast of round {repeat} of study {study} in the ledger of this home")
    folder.mkdir(parents=True, exist_ok=True)
    failure = f"{path} was not written"
    with error_context(failure, OSError, kind=StepcastError), scratch(folder) as fresh:
        pq.write_table(rows, fresh, compression="zstd")
        sync(fresh)
        fresh.rename(path)
    sync(folder)
    return path, rows.num_rows


def load(connection: duckdb.DuckDBPyConnection, folder: Path) -> int:
    """Load all sealed forecasts of a folder that are not there yet; return how many are new.

    Raises:
        BadInput: a file is none of `seal`; or the folder or a file is a symbolic link.
    """
    if not folder.exists():
        return 0
    with error_context(f"{folder}"):
        check_plain(folder)
    count = 0
    schema = connection.execute("SELECT * FROM pred.sealed LIMIT 0").to_arrow_table().schema
    with journal.entry(connection) as entry:
        for path in sorted(folder.glob("*.parquet")):
            for rows in _batches(path, schema):
                connection.register("published", rows)
                try:
                    new = connection.execute(
                        "FROM published ANTI JOIN pred.sealed USING (prediction_id)"
                    ).pl()
                    entry.insert("pred.sealed", new.to_dicts())
                    count += new.height
                except duckdb.Error as error:
                    if is_damage(error):
                        raise
                    raise BadInput(
                        f"{path}: not what `stepcast seal` writes: {first_line(error)}"
                    ) from error
                finally:
                    connection.unregister("published")
    return count


def _batches(path: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    broken = f"{path}: no Parquet file that can be read"
    with error_context(broken, pa.ArrowInvalid), error_context(f"{path.parent}"):
        # Files of earlier versions lack the later columns, and nothing else.
        if {*pq.read_schema(path).names} | _LATER != {*schema.names}:
            raise BadInput(f"{path}: its columns are not those that `stepcast seal` writes")
        for rows in stream_as(schema, path, most_rows=limits.SEALED_ROWS):
            _check(rows, path.name)
            yield rows


def _check(rows: pa.Table, where: str) -> None:
    """Refuse forecasts that are none.

    Raises:
        BadInput: a number is not finite, a forecast says nothing, or is of another scenario.
    """
    import pyarrow.compute as pc  # readers of the ledger need none, and it takes long

    for column in ("value", "low", "high"):
        check_values(rows, column, pc.is_finite(rows[column]), "a finite number", where)
    says = pc.or_(
        pc.is_valid(rows["value"]), pc.and_(pc.is_valid(rows["low"]), pc.is_valid(rows["high"]))
    )
    check_values(rows, "value", says, "a value, or both ends of an interval", where)
    named = zip(rows["canonical"].to_pylist(), rows["scenario_id"].to_pylist(), strict=True)
    is_its = pa.chunked_array([[content_hash(text) == key for text, key in named]], pa.bool_())
    check_values(rows, "scenario_id", is_its, "the hash of canonical", where)
