"""The raw tables as Arrow schemas: what a landed Parquet file holds, and how one is checked."""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse import limits
from warehouse.durable_files import is_of_machine
from warehouse.landed_files import check_file
from warehouse.records import BadInput

JSON_COLUMNS = ("host", "software", "config")
CHUNK_ROWS = 122_880
"""Rows that are in memory at once, and of a Parquet row group: one row group of DuckDB."""

_TYPES: Mapping[str, pa.DataType] = {
    "text": pa.string(),
    "json": pa.string(),
    "time": pa.timestamp("us", tz="UTC"),
    "real": pa.float64(),
    "flag": pa.bool_(),
    "small": pa.int16(),
    "int": pa.int32(),
    "big": pa.int64(),
}

# Columns after run_id and their types; `?`: may be NULL. schema/*.sql explains every one.
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "run": (
        "probe text, purpose text, study text, repeat int, scenario_id text?, backend text",
        "status text, error text?, started_at time, ended_at time, host_id text",
        "host json, software json, config json, cost_usd real?",
    ),
    "scenario": ("scenario_id text, canonical json",),
    "sample": ("metric text, unit text, window small?, value real?",),
    "step": ("worker small, step int, window small?, traced flag, start_us big, end_us big",),
    "operation": (
        "operation int, name text, type text, resource text, server small?, size_bytes big?",
        "device text?, input_bytes big?, output_bytes big?",
    ),
    "operation_shape": ("operation int, inputs json, outputs json, attributes json",),
    "operation_time": (
        "operation int, steps int",
        "mean_us real, median_us real, sd_us real, min_us real, p95_us real",
    ),
    "edge": ("source int, target int",),
    "timing": ("step int, operation int, start_us int, duration_us int",),
    "layer": ("layer int, name text, type text, parameter_count big, gradient_bytes big",),
    "layer_time": (
        "batch_size int, trial small, layer int",
        "forward_us real?, backward_us real?, gradient_ready real?",
    ),
    "compute": (
        "batch_size int, trial small, rank small, forward_s real, backward_s real, update_s real?",
    ),
    "dnn": (
        "dnn text, framework text, family text?, image_size int?, batch_size int",
        "parameter_count big, flops real?",
    ),
    "dnn_node": (
        "node int, name text, type text, parameter_count big, flops real?",
        "input_bytes big?, output_bytes big?, attributes json",
    ),
    "dnn_edge": ("source int, target int",),
    "link": (
        "direction text, flows small, flow small, trial small, seconds real, bytes big",
        "bandwidth_Bps real, retransmits int?",
    ),
    "contention": (
        "direction text, flows small, place small, seconds real, bytes big, log_share_sd real?",
        "opposite small?",
    ),
    "allreduce": (
        "library text, world_size small, size_bytes big, concurrent small, trial small",
        "rank small?, seconds real, raw_seconds real, bus_bandwidth_Bps real",
        "in_place flag?, mtu_bytes int?",
    ),
    "stream": (
        "step int?, direction text, worker small, server small, stream int, operation int?",
        "size_bytes big, first_us big, last_us big, segments int",
    ),
    "http2_frame": (
        "worker small, server small, direction text, sender text, type text, stream int",
        "time_us big, length_bytes int, value big?",
    ),
    "cluster_node": (
        "node text, role text, node_type text, address text?, cores real?, memory_bytes big?",
        "device_count small?, device_name text?",
    ),
    "runtime_event": (
        "at_s real, event text, node text?, node_type text?, step big?, detail json",
    ),
    "price": (
        "provider text, node_type text, region text, zone text?, market text",
        "usd_per_hour real, observed_at time, source text",
    ),
    "judgement": (
        "node_type text, metric text, unit text, value real, expected real?, change_percent real?",
        "robust_z real?, earlier_n int, outcome text, alarm flag, confirmed flag?",
        "watched text, confirmed_by text?",
    ),
    "instance_type": (
        "provider text, node_type text, region text, vcpus int, memory_bytes big",
        "device_count small, device_name text?, device_memory_bytes big?, network text",
        "network_gbps real?, network_peak_gbps real?, observed_at time, source text",
    ),
    "rented": (
        "entry int, kind text, written_at time, token text?, instance text?, account text?",
        "region text?, zone text?, node_type text?, market text?, instances int?",
        "usd_per_hour real?, volume_usd_per_hour real?, hours real?, seconds real?, usd real?",
        "code text?, reason text?",
    ),
    "external": ("row_number big, subject json, metric text, unit text, value real?, repeat int",),
    "source": (
        "format text, file_name text, sha256 text, source text, licence text?, url text?",
        "imported_at time",
    ),
}

_PLAIN = "text, a number, a truth value or a time"
_PLAIN_TYPES = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_timestamp,
    pa.types.is_null,
)


def _field(column: str) -> pa.Field:
    name, kind = column.split()
    return pa.field(name, _TYPES[kind.removesuffix("?")], nullable=kind.endswith("?"))


def _schema(lines: tuple[str, ...]) -> pa.Schema:
    return pa.schema([_field(column) for column in ", ".join(("run_id text", *lines)).split(", ")])


SCHEMAS: Mapping[str, pa.Schema] = MappingProxyType(
    {name: _schema(lines) for name, lines in _COLUMNS.items()}
)


_LEAST: Mapping[str, float] = {
    **dict.fromkeys(("world_size", "batch_size", "vcpus"), 1),
    **dict.fromkeys(("seconds", "raw_seconds", "bytes", "duration_us", "parameter_count"), 0),
    **dict.fromkeys(("bandwidth_Bps", "bus_bandwidth_Bps", "size_bytes", "memory_bytes"), 0),
}
"""What columns of these names hold at least, in whichever table."""
_NAMES = ("node_type", "prediction_id")
"""Columns by which people know a row."""


def check_rows(name: str, rows: pa.Table, where: str, first: int = 1) -> None:
    """Refuse rows of raw table `name` that no question could use; `where` begins the message.

    Args:
        name: of the table.
        rows: in its schema.
        where: they are from.
        first: number of the first row.

    Raises:
        BadInput: a price is not above 0, or one of `_LEAST` is less; the message names the row.
    """
    import pyarrow.compute as pc  # makes 300 functions, for loads alone

    for column in set(rows.column_names) & _LEAST.keys():
        enough = pc.greater_equal(rows[column], _LEAST[column])
        check_values(rows, column, enough, f"at least {_LEAST[column]:g}", where, first)
    if name == "price":
        usd = rows["usd_per_hour"]
        is_price = pc.and_(pc.greater(usd, 0.0), pc.less_equal(usd, limits.USD))
        expected = f"US dollars above 0 and at most {limits.USD:,.0f}"
        check_values(rows, "usd_per_hour", is_price, expected, where, first)


def check_values(
    rows: pa.Table,
    column: str,
    is_right: pa.ChunkedArray,
    expected: str,
    where: str,
    first: int = 1,
) -> None:
    """Refuse rows with a value that is not right; NULL is.

    Raises:
        BadInput: there is one; the message names the first.
    """
    if (place := is_right.fill_null(True).index(False).as_py()) >= 0:
        found = rows[column][place].as_py()
        about = next((f" ({rows[key][place]})" for key in _NAMES if key in rows.column_names), "")
        raise BadInput(
            f"{where}: row {first + place}{about}: {column} is {found}, expected {expected}"
        )


def conform(schema: pa.Schema, table: pa.Table, where: str) -> pa.Table:
    """Return the columns of a schema, in its order and types; `where` begins messages.

    A column that may be NULL and is not there is NULL.

    Raises:
        BadInput: another column is missing, or a value does not fit its type.
    """
    missing = [field for field in schema if field.name not in table.column_names]
    needed = [field.name for field in missing if not field.nullable]
    if needed:
        present = ", ".join(table.column_names)
        raise BadInput(f"{where}: missing columns {', '.join(needed)}; found {present}")
    for field in missing:
        table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    try:
        return table.select(schema.names).cast(schema)
    except MemoryError:
        raise
    except (pa.ArrowException, ValueError, KeyError) as error:
        raise BadInput(f"{where}: {one_line(error)}") from error


def read(file: Path) -> pa.Table:
    """Return all rows of `<table>.parquet`, checked as `stream` does."""
    return pa.concat_tables(stream(file))


def stream(file: Path, run_ids: Collection[str] | None = None) -> Iterator[pa.Table]:
    """Yield the rows of `<table>.parquet`, `CHUNK_ROWS` at a time, in that table's schema.

    The first chunk has no rows: whether the columns fit is known before any row is read. Of some
    runs only, those row groups are read whose statistics say that they may hold rows of them.

    Raises:
        BadInput: the file is missing, unreadable, of no known table, lacks columns, or is larger
            than `limits` allow: rows, bytes of a row group, texts in all and of one chunk.
    """
    name = file.stem
    if name not in SCHEMAS:
        raise BadInput(f"{file.name} is no known table; the tables are {', '.join(SCHEMAS)}")
    return stream_as(SCHEMAS[name], file, run_ids)


def stream_as(
    schema: pa.Schema,
    file: Path,
    run_ids: Collection[str] | None = None,
    most_rows: int = limits.TABLE_ROWS,
) -> Iterator[pa.Table]:
    """Yield the rows of a Parquet file in a schema of ours, as `stream` does.

    Lists of texts are bounded too: a row group may have `limits.EVENTS` of these.

    Raises:
        BadInput: as `stream`; or it is a symbolic link or no file.
    """
    import pyarrow.compute as pc

    try:
        check_file(file.name, file.lstat().st_mode)
        source = pa.OSFile(str(file))
        metadata = pq.ParquetFile(source, pre_buffer=False).metadata
        fields = [
            column for column in metadata.schema.to_arrow_schema() if column.name in schema.names
        ]
        _check_sizes(metadata, fields, file.name, most_rows)
        columns = [column.name for column in fields]
        paths = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
        # Texts stay words of a dictionary until it is known how long they become.
        with (
            source,
            pq.ParquetFile(
                source, metadata=metadata, pre_buffer=False, read_dictionary=paths
            ) as parquet,
        ):
            yield conform(schema, pa.schema(fields).empty_table(), file.name)
            text_bytes = 0
            groups = _groups(metadata, paths, run_ids)
            for batch in parquet.iter_batches(CHUNK_ROWS, row_groups=groups, columns=columns):
                if run_ids is not None:
                    batch = batch.filter(pc.is_in(batch["run_id"], pa.array(run_ids, pa.string())))
                text_bytes += _checked_text_bytes(batch, file.name)
                if text_bytes > limits.UNPACKED_BYTES:
                    raise BadInput(f"{file.name}: {_too_long(limits.UNPACKED_BYTES)}")
                yield conform(schema, pa.Table.from_batches([batch]), file.name)
    except FileNotFoundError as error:
        raise BadInput(f"{file.name} is missing") from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if is_of_machine(error):  # no permission, a failing disk, no memory
            raise
        raise BadInput(f"{file.name} is not readable Parquet: {one_line(error)}") from error


def _groups(
    metadata: pq.FileMetaData, paths: Sequence[str], run_ids: Collection[str] | None
) -> list[int]:
    """Return the row groups that may hold rows of these runs, all if there is no telling."""
    groups = range(metadata.num_row_groups)
    if run_ids is None or "run_id" not in paths:
        return list(groups)
    column = paths.index("run_id")
    wanted = sorted(run_ids)

    def is_wanted(group: int) -> bool:
        statistics = metadata.row_group(group).column(column).statistics
        if statistics is None or not statistics.has_min_max or not isinstance(statistics.min, str):
            return True
        first = bisect_left(wanted, statistics.min)
        return first < len(wanted) and wanted[first] <= statistics.max

    return [group for group in groups if is_wanted(group)]


def _check_sizes(
    metadata: pq.FileMetaData, columns: Sequence[pa.Field], where: str, most_rows: int
) -> None:
    """Refuse a file that says it is too large, or has values of no bounded size.

    Raises:
        BadInput: it has.
    """
    odd = [column for column in columns if not _is_plain(column.type)]
    if odd:
        raise BadInput(f"{where}: column {odd[0].name} is {odd[0].type}; expected {_PLAIN}")
    if metadata.num_rows > most_rows:
        raise BadInput(
            f"{where}: {metadata.num_rows:,} rows, more than {most_rows:,}; write several files"
        )
    for group in range(metadata.num_row_groups):
        size_bytes = metadata.row_group(group).total_byte_size
        chunks = map(metadata.row_group(group).column, range(metadata.num_columns))
        if any(chunk.num_values > limits.EVENTS for chunk in chunks if "." in chunk.path_in_schema):
            raise BadInput(f"{where}: lists of more than {limits.EVENTS:,} values in a row group")
        if size_bytes > limits.ROW_GROUP_BYTES:
            raise BadInput(
                f"{where}: a row group of {size_bytes / 2**20:,.0f} MiB, more than "
                f"{limits.ROW_GROUP_BYTES / 2**20:,.0f}; write smaller ones"
            )


def _is_plain(kind: pa.DataType) -> bool:
    value_kind = kind
    while pa.types.is_dictionary(value_kind) or _is_list(value_kind):
        value_kind = value_kind.value_type
    return any(is_one(value_kind) for is_one in _PLAIN_TYPES)


def _checked_text_bytes(batch: pa.RecordBatch, where: str) -> int:
    """Return how long the texts of a chunk become, without `run_id`, before they are decoded.

    Raises:
        BadInput: they are longer than `limits.TEXT_BYTES`.
    """
    sizes_bytes = {
        name: _text_bytes(column)
        for name, column in zip(batch.schema.names, map(_flat, batch.columns), strict=True)
        if pa.types.is_dictionary(column.type)
    }
    if sum(sizes_bytes.values()) > limits.TEXT_BYTES:
        raise BadInput(f"{where}: {_too_long(limits.TEXT_BYTES)} in {CHUNK_ROWS:,} rows")
    return sum(size for name, size in sizes_bytes.items() if name != "run_id")


def _flat(column: pa.Array) -> pa.Array:
    return _flat(column.flatten()) if _is_list(column.type) else column


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _text_bytes(column: pa.DictionaryArray) -> int:
    import pyarrow.compute as pc

    lengths = pc.binary_length(column.dictionary)
    return int(pc.sum(pc.take(lengths, column.indices)).as_py() or 0)


def _too_long(limit_bytes: int) -> str:
    return f"texts of more than {limit_bytes / 2**20:,.0f} MiB"


def columns_of(file: Path) -> list[str]:
    """Return the columns of `<table>.parquet` that its table has, in the table's order."""
    present = pq.read_schema(file).names
    return [name for name in SCHEMAS[file.stem].names if name in present]


def one_line(error: Exception) -> str:
    """Return an error's message without line breaks."""
    return " ".join(str(error).split())
