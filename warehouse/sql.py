"""SQL of whoever asks: one statement that reads the published history, and nothing else."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa

from warehouse import limits
from warehouse.connection import is_damage, with_place
from warehouse.home import HISTORY, MAIN
from warehouse.publication import open_published
from warehouse.records import BadInput
from warehouse.tables import CHUNK_ROWS, one_line

_EXPLAIN = re.compile(r"\s*EXPLAIN\b\s*(ANALYZE\b)?", re.IGNORECASE)
_READS = re.compile(
    r"seq_scan|parquet_\w+|read_parquet|range|generate_series|unnest|repeat(_row)?|json_each|"
    r"json_tree|summary|duckdb_\w+|pragma_\w+|test_all_types|icu_calendar_names|pg_timezone_names"
)
"""Functions that give tables and do nothing else; others write logs, profiles and checkpoints,
follow addresses in memory, or run SQL that no plan shows."""


def read_only(home: Path, sql: str, values: Mapping[str, object] | None = None) -> pl.DataFrame:
    """Run SQL on the published history and return the rows of its one statement.

    `values` are those of its parameters, if it has some.

    Raises:
        BadInput: as `stream`, or the rows take more than `limits.SQL_ANSWER_BYTES`.
    """
    frames: list[pl.DataFrame] = []
    left_bytes = limits.SQL_ANSWER_BYTES
    for frame in stream(home, sql, values):
        left_bytes -= int(frame.estimated_size())
        if left_bytes < 0:
            raise BadInput(
                f"the answer takes more than {limits.SQL_ANSWER_BYTES / 2**20:,.0f} MiB; ask for "
                "fewer rows or columns"
            )
        frames.append(frame)
    return pl.concat(frames)


def stream(
    home: Path, sql: str, values: Mapping[str, object] | None = None
) -> Iterator[pl.DataFrame]:
    """Run SQL on the published history and yield the rows of its one statement as they come.

    The first frame has none.

    Raises:
        BadInput: there is no history yet, the SQL is wrong, it would do anything but read the
            history, or needs more than `limits.SQL_MEMORY` and `limits.SQL_SPILL`.
    """
    settings = {"memory_limit": limits.SQL_MEMORY, "max_temp_directory_size": limits.SQL_SPILL}
    main, history = home / MAIN, home / HISTORY
    with open_published(main, history, any_version=True, settings=settings) as connection:
        try:
            _check_reads(connection, sql, values)
            with connection.execute(sql, values or None).to_arrow_reader(CHUNK_ROWS) as reader:
                yield _frame(reader.schema.empty_table())
                for batch in reader:
                    yield _frame(pa.Table.from_batches([batch]))
        except duckdb.Error as error:
            if is_damage(error):
                raise
            raise BadInput(with_place(error)) from error
        except MemoryError:
            raise
        except (
            pl.exceptions.PolarsError,
            pl.exceptions.PanicException,
            pa.ArrowException,
        ) as error:
            raise BadInput(f"{one_line(error)}; cast the column to another type") from error


def _frame(rows: pa.Table) -> pl.DataFrame:
    for field in rows.schema:
        if "interval" in str(field.type):
            raise BadInput(f"{field.name} is {field.type}; cast the column, e.g. with epoch()")
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _check_reads(
    connection: duckdb.DuckDBPyConnection, sql: str, values: Mapping[str, object] | None
) -> None:
    """Refuse what is not one statement that reads, views and macros that it uses included.

    Raises:
        BadInput: it is not.
    """
    asked = _statement(connection, sql)
    if asked.type == duckdb.StatementType.EXPLAIN:
        asked = _statement(connection, _EXPLAIN.sub("", asked.query, 1))
    if asked.type != duckdb.StatementType.SELECT:
        raise BadInput(f"the history is read-only: it takes SELECT, not {asked.type.name}")
    plan = connection.execute(f"EXPLAIN (FORMAT json) {asked.query}", values or None).fetchall()
    functions = connection.execute(
        "SELECT function_name FROM system.main.duckdb_functions() WHERE function_type = 'table'"
    ).fetchall()
    acting = {name for (name,) in functions if not _READS.fullmatch(name)}
    operators = {name.strip().lower() for _, part in plan for name in _operators(json.loads(part))}
    if found := acting & operators:
        raise BadInput(f"the history is read-only: function {min(found)} is not for it")


def _statement(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    statements = connection.extract_statements(sql)
    if not statements:
        raise BadInput('no SQL statement given; try "SELECT * FROM report.accuracy"')
    for statement in statements:
        if statement.type not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
            raise BadInput(f"the history is read-only: it takes SELECT, not {statement.type.name}")
    if len(statements) > 1:
        raise BadInput(f"expected one SQL statement, found {len(statements)}; ask each")
    return statements[0]


def _operators(plan: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the names of operators of a plan."""
    for operator in plan:
        yield str(operator["name"])
        yield from _operators(operator["children"])
