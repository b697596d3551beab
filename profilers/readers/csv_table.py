"""CSV files with a mapping → rows of any raw table, most often `external`.

Everything is read as text and converted where the mapping says so, so that a value of another kind
is named by its line, not guessed at.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from profilers.probe import Setting
from profilers.readers.contract import ImportedRun, ReaderOptions, lines, read_bytes
from profilers.readers.csv_mapping import ColumnSource, CsvMapping, Sample, find, load
from warehouse import limits
from warehouse.records import BadInput, content_hash

_LINE = "\x00line"
_OTHER_PACKERS = (b"\x78\x01", b"\x78\x9c", b"\x78\xda", b"\x28\xb5\x2f\xfd")
"""How zlib's and zstd's bytes begin, which polars would unpack without a limit."""
_DUPLICATE = re.compile(r"_duplicated_[0-9]+$")
_MOST = 1_000
"""Columns that a message looks through."""
_SAYS_ALL_REDUCE = {
    "collective": ("^(?i)[^a-z]*all[^a-z]*reduce", True),
    "root": (r"^\s*-1(\.0*)?\s*$", True),
    "redop": (r"^\s*none\s*$", False),
}
"""What columns of nccl-tests have in all-reduces: a pattern, and whether it is found."""
_FLAGS = {"true": True, "false": False, "1": True, "0": False}
_DIGITS = 15
"""Significant digits kept of a value times a factor: what doubles hold."""
_EXACT = 1 << 53
"""Up to here a double is every integer."""


def read(path: Path, options: ReaderOptions) -> Iterator[ImportedRun]:
    """Yield a run for each set of values that the mapping's `runs` and `host` columns take.

    Raises:
        BadInput: no mapping, a column that is not there, or a value of another kind.
    """
    file = find(path, options.mapping)
    mapping = load(file)
    cells = _scan(path, mapping, file)
    for name, pattern in mapping.only.items():
        cells = cells.filter(pl.col(name).str.contains(pattern))
    _check_values(path, cells, mapping)
    if mapping.sample is not None:
        cells = cells.filter(_is_sampled(mapping.sample))
    keys = sorted({*mapping.runs, *mapping.host.values()})
    frames = [
        cells.select(
            *(pl.col(name).alias(f"\x00{name}") for name in keys),
            pl.col(_LINE),
            *(
                _expression(column).alias(name)
                for name, column in {**mapping.columns, **row}.items()
            ),
        )
        for row in mapping.rows
    ]
    with _refused(path, f"does not fit {file.name}"):
        table = pl.concat(frames).sort(_LINE, maintain_order=True).collect(engine="streaming")
        yield from _runs(path, table, mapping, keys, file)


def _is_sampled(sample: Sample) -> pl.Expr:
    """Return which lines are kept of each group: those at which another share of it begins."""
    place, size = (expr.over(sample.of) for expr in (pl.int_range(pl.len()), pl.len()))
    return (place == 0) | (place * sample.lines // size != (place - 1) * sample.lines // size)


@contextmanager
def _refused(path: Path, why: str) -> Iterator[None]:
    """Turn what polars finds wrong into a refusal."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise BadInput(f"{path}: {why} ({_one_line(str(error)):.200})") from None


def _runs(
    path: Path, table: pl.DataFrame, mapping: CsvMapping, keys: Sequence[str], file: Path
) -> Iterator[ImportedRun]:
    """Yield a run for each set of values of the columns `keys`."""
    named = [f"\x00{name}" for name in keys]
    if mapping.table == "external" and table["value"].null_count() == table.height:
        raise BadInput(f"{path}: every value is missing; is it another file or --mapping?")
    parts = table.partition_by(named, maintain_order=True) if named else [table]
    for part in parts:
        values = {name: part[f"\x00{name}"][0] for name in keys}
        config: dict[str, Setting] = {name: values[name] for name in mapping.runs}
        host = {name: values[key] for name, key in mapping.host.items() if values[key] is not None}
        yield ImportedRun(
            {mapping.table: _completed(mapping.table, part.drop(named))},
            {
                **config,
                **mapping.words(),
                "mapping": file.stem,
                "mapping_hash": content_hash(mapping.canonical_json()),
            },
            host,
        )


def _scan(path: Path, mapping: CsvMapping, file: Path) -> pl.LazyFrame:
    """Return the cells of a file as text, and their lines; a gzipped one is unpacked here."""
    _, header = next(lines(path), (1, ""))
    if not header.strip():
        raise BadInput(f"{path} is empty; expected a header line and measurements")
    with path.open("rb") as start:
        packed = start.read(4)
    if packed.startswith(_OTHER_PACKERS):
        raise BadInput(f"{path}: packed, but not with gzip; unpack it first")
    if path.stat().st_size > limits.UNPACKED_BYTES:
        raise BadInput(
            f"{path}: longer than {limits.UNPACKED_BYTES / 2**20:,.0f} MiB; import parts"
        )
    with _refused(path, "not a CSV file"):
        cells = pl.scan_csv(
            read_bytes(path) if packed.startswith(b"\x1f\x8b") else path,
            infer_schema=False,
            row_index_name=_LINE,
            row_index_offset=2,
            null_values=["", *mapping.missing],
        )
        names = cells.collect_schema().names()[1:]
    missing = sorted(mapping.source_names() - {*names})
    if missing:
        raise BadInput(
            f"{path}: no column {_quoted(missing):.200}, which {file.name} maps; found "
            f"{_quoted(names):.400}; another file, or another --mapping?"
        )
    _check_unambiguous(path, names, mapping, file)
    return cells


def _check_unambiguous(path: Path, names: Sequence[str], mapping: CsvMapping, file: Path) -> None:
    """Refuse a mapping that names one of several columns of the same name.

    Polars calls the second column `a` `a_duplicated_0`; a mapping that says so knows of it.

    Raises:
        BadInput: it does; the message has the positions.
    """
    sources = mapping.source_names()
    called = [name if name in sources else _DUPLICATE.sub("", name) for name in names]
    for name in sorted(sources):
        if called.count(name) > 1:
            at = ", ".join(f"{i}" for i, other in enumerate(called[:_MOST], 1) if other == name)
            raise BadInput(
                f"{path}: two columns of one name ({name!r:.60} is column {at}), of which "
                f"{file.name} maps one; rename the others in the file"
            )


def _checks(mapping: CsvMapping, names: Sequence[str]) -> Iterator[tuple[str, pl.Expr, str]]:
    """Yield columns, whether a line's value there is wrong, and what is expected."""
    for source in mapping.sources():
        expected = f"text like {source.pattern!r}" if source.pattern else source.kind
        if source.words is not None:
            expected = f"one of {', '.join(source.words)}"
        name = str(source.column)
        yield name, pl.col(name).is_not_null() & _converted(source).is_null(), expected
    for name, (pattern, is_said) in _SAYS_ALL_REDUCE.items():
        if mapping.table == "allreduce" and name in names:
            is_wrong = pl.col(name).str.contains(pattern) != is_said
            yield name, is_wrong, "what an all-reduce has"


def _check_values(path: Path, cells: pl.LazyFrame, mapping: CsvMapping) -> None:
    """Refuse a file without lines, with more than can be kept, or with a value of another kind."""
    checks = list(_checks(mapping, cells.collect_schema().names()))
    texts = [pl.col(name).str.len_bytes().sum() for name in mapping.source_names()]
    with _refused(path, "not a whole CSV file"):
        counted = cells.select(
            pl.len().alias("rows"),
            pl.sum_horizontal(texts).alias("bytes"),
            *(
                pl.col(_LINE).filter(bad).min().alias(f"{i}")
                for i, (_, bad, _) in enumerate(checks)
            ),
        ).collect(engine="streaming")
    count, size = counted["rows"][0] * len(mapping.rows), counted["bytes"][0] * len(mapping.rows)
    if not count:
        meant = " that its mapping means" if mapping.only else ""
        raise BadInput(f"{path}: no line below the header{meant}; expected measurements")
    if count > limits.EVENTS or size > limits.KEPT_CHARACTERS:
        raise BadInput(
            f"{path}: {count:,} rows with {size:,} bytes of text; at most {limits.EVENTS:,} and "
            f"{limits.KEPT_CHARACTERS:,} are kept; import parts of it"
        )
    wrong = [(line, i) for i in range(len(checks)) if (line := counted[f"{i}"][0]) is not None]
    if not wrong:
        return
    line, i = min(wrong)
    name, _, expected = checks[i]
    with _refused(path, "not a whole CSV file"):
        cell = cells.filter(pl.col(_LINE) == line).select(name).collect(engine="streaming").item()
        place = _place(cells, line)
    raise BadInput(
        f"{path} {place}, column {name!r}: expected {expected}, found "
        f"{cell!r:.80}; mend the file, or say in the mapping which "
        "`pattern` the value has, or that this text is `missing`"
    )


def _place(cells: pl.LazyFrame, record: int) -> str:
    """Return the line in which a record begins: cells and the names of columns may have several."""
    header = sum(name.count("\n") for name in cells.collect_schema().names())
    above = cells.filter(pl.col(_LINE) < record).drop(_LINE)
    counted = above.select(pl.all().str.count_matches("\n", literal=True).sum())
    return f"line {record + header + sum(counted.collect(engine='streaming').row(0))}"


def _converted(column: ColumnSource) -> pl.Expr:
    """Return a source column as its kind; NULL where a value is none."""
    text = pl.col(str(column.column))
    if column.pattern is not None:
        text = text.str.extract(column.pattern, 1)
    if column.kind == "flag":
        return text.str.to_lowercase().replace_strict(_FLAGS, default=None, return_dtype=pl.Boolean)
    if column.kind == "time":
        return text.str.to_datetime(time_unit="us", time_zone="UTC", strict=False)
    if column.kind == "text":
        if column.words is None:
            return text
        return text.replace_strict(column.words, default=None, return_dtype=pl.String)
    real = _finite(text.cast(pl.Float64, strict=False))
    if column.kind == "real":
        return real if column.factor is None else _finite(_scaled(real, column.factor))
    if column.factor is not None:
        return _integer(_scaled(real, column.factor))
    # 8.0 and 1e3 are whole numbers, 8.5 is none. A float is not always the number written.
    digits = text.str.strip_chars().str.replace(r"^([-+]?[0-9]+)\.0*$", "$1")
    is_whole = text.str.contains("[eE]") & (real == real.round()) & (real.abs() < _EXACT)
    return pl.coalesce(digits.cast(pl.Int64, strict=False), _integer(pl.when(is_whole).then(real)))


def _finite(number: pl.Expr) -> pl.Expr:
    return pl.when(number.is_finite()).then(number)


def _scaled(number: pl.Expr, factor: float) -> pl.Expr:
    return (number * factor).round_sig_figs(_DIGITS)


def _integer(number: pl.Expr) -> pl.Expr:
    """Return a float rounded to a 64 bit integer; NULL where it is too large for one."""
    return number.round().cast(pl.Int64, strict=False)


def _expression(column: ColumnSource) -> pl.Expr:
    if column.subject is not None:
        parts = [_expression(column.subject[name]).alias(name) for name in sorted(column.subject)]
        return pl.struct(parts).struct.json_encode()
    if column.column is None:
        return pl.lit(column.constant)
    return _converted(column)


def _completed(table: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Add what a table has and a mapping need not say: numbers of rows, repeats and trials."""
    names = set(rows.columns)
    added: dict[str, pl.Expr] = {}
    if table == "external":
        added["row_number"] = pl.col(_LINE) - 1
        added["repeat"] = pl.int_range(1, pl.len() + 1).over("subject", "metric")
    if table == "allreduce":
        n, seconds = pl.col("world_size"), pl.col("seconds")
        added["bus_bandwidth_Bps"] = 2 * pl.col("size_bytes") * (n - 1) / (n * seconds)
        added["raw_seconds"] = seconds
        added["concurrent"] = pl.lit(1)
        settings = sorted(names & {"library", "world_size", "size_bytes", "in_place", "rank"})
        added["trial"] = pl.int_range(pl.len()).over(settings)
    new = [expr.alias(name) for name, expr in added.items() if name not in names]
    return rows.with_columns(new).drop(_LINE)


def _quoted(names: Sequence[str]) -> str:
    """Return names of columns so that blanks around them are seen."""
    return ", ".join(map(repr, names))


def _one_line(text: str) -> str:
    return " ".join(text.split())
