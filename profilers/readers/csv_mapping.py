"""Mappings: which columns of somebody's CSV file are which columns of a raw table.

A mapping is YAML; those of public data sets are in `mappings/`, found by the file's stem.
"""

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

import polars as pl
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from profilers.record_file import read_record
from warehouse.records import BadInput, Record, SparseRecord

Kind = Literal["text", "integer", "real", "flag", "time"]
FOLDER = Path(__file__).parent / "mappings"


class ColumnSource(SparseRecord):
    """Where the values of one column come from: a source column, a constant, or a subject.

    A source column may be converted: `type` says to what (text unless said), `factor` multiplies a
    number before an integer is rounded, and of a text `pattern` keeps its first group. `words` says
    what we call what a text has; it has to have all that the file has. A `subject` becomes a JSON
    object.
    """

    SPARSE = ("words",)

    column: str | None = None
    constant: bool | int | float | str | None = None
    subject: Mapping[str, "Source"] | None = None
    type: Kind | None = None
    factor: float | None = Field(default=None, allow_inf_nan=False)
    pattern: str | None = None
    words: Mapping[str, str] | None = None

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        given = [
            name for name in ("column", "constant", "subject") if name in self.model_fields_set
        ]
        if len(given) != 1:
            raise ValueError(f"needs one of column, constant, subject; has {given or 'none'}")
        if given == ["column"] and self.column is None:
            raise ValueError("column: expected the name of a source column, found nothing")
        if given == ["subject"] and not self.subject:
            raise ValueError("subject: expected names with their sources, found none")
        if self.column is None and self.model_fields_set & {"type", "factor", "pattern", "words"}:
            raise ValueError("type, factor, pattern and words are of source columns only")
        if self.words is not None and self.kind != "text":
            raise ValueError(f"words are of texts, not {self.kind}")
        if self.factor is not None and self.kind not in ("integer", "real"):
            raise ValueError(f"factor needs a number, not {self.kind}")
        if isinstance(self.constant, int) and not -(1 << 63) <= self.constant < 1 << 63:
            raise ValueError(f"constant: {self.constant:.3e} is no 64 bit integer")
        if self.pattern is not None:
            _compiled(self.pattern, pl.lit("").str.extract(self.pattern, 1))
        return self

    @property
    def kind(self) -> Kind:
        """Type of the values: real if only a factor is given."""
        return self.type or ("text" if self.factor is None else "real")


def _is_pattern(pattern: str) -> str:
    """Refuse what is no regular expression."""
    _compiled(pattern, pl.lit("").str.contains(pattern))
    return pattern


def _compiled(pattern: str, use: pl.Expr) -> None:
    try:
        pl.select(use)
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"pattern {pattern!r:.60}: {' '.join(str(error).split()):.120}") from None


def _spelt_out(value: object) -> object:
    return {"column": value} if isinstance(value, str) else value


Source = Annotated[ColumnSource, BeforeValidator(_spelt_out)]
"""A column; a plain word is the name of a source column."""


class Sample(Record):
    """Of lines that have the same values in the columns `of`, `lines` at most, evenly spaced."""

    of: tuple[str, ...] = Field(min_length=1)
    lines: int = Field(ge=1)


class CsvMapping(SparseRecord):
    """How a CSV file becomes rows of the raw table `table`.

    Each line gives a row for every entry of `rows` (one, if there are none), with `columns` and
    that entry's. Lines that differ in `runs` or in `host` belong to different runs: the former go
    into the run's config, the latter say which machine it was. `missing` are texts of values that
    are not there, besides the empty one.
    `commit` of the source, `hardware` and `step` (what was timed) are words for readers. Of a file
    that is too large to be kept whole, `sample` says which lines are; and `only` which patterns
    columns have in the lines that are meant.
    """

    SPARSE = ("commit", "hardware", "step", "sample", "only")

    table: str
    source: str
    licence: str | None = None
    url: str | None = None
    commit: str | None = None
    hardware: str | None = None
    step: str | None = None
    sample: Sample | None = None
    only: Mapping[str, Annotated[str, AfterValidator(_is_pattern)]] = {}
    missing: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    host: Mapping[str, str] = Field(default_factory=dict)
    columns: Mapping[str, Source]
    rows: tuple[Mapping[str, Source], ...] = ({},)

    def sources(self) -> Iterator[ColumnSource]:
        """Yield every source column, those within subjects included."""
        for columns in (self.columns, *self.rows):
            for column in columns.values():
                inner = column.subject.values() if column.subject else (column,)
                yield from (source for source in inner if source.column is not None)

    def source_names(self) -> set[str]:
        """Names that the header of the file must have."""
        named = {str(source.column) for source in self.sources()}
        sampled = self.sample.of if self.sample else ()
        return named | {*self.runs, *self.host.values(), *sampled, *self.only}

    def words(self) -> dict[str, str]:
        """Return what it says of its source for readers."""
        texts = {"commit": self.commit, "hardware": self.hardware, "step": self.step}
        return {name: text for name, text in texts.items() if text is not None}


def find(path: Path, given: Path | None) -> Path:
    """Return the mapping file for a CSV: the one given, or ours for its stem.

    Raises:
        BadInput: there is none.
    """
    if given is not None:
        if not given.is_file():
            raise BadInput(f"--mapping {given}: no such file")
        return given
    stem = path.name.removesuffix(".gz").removesuffix(".csv")
    known = sorted(file.stem for file in FOLDER.glob("*.yaml"))
    if stem not in known:
        near = difflib.get_close_matches(stem, known, n=2) or known
        raise BadInput(
            f"{path.name}: no mapping is called {stem!r} (there are {', '.join(near)}); write one "
            "and give it with --mapping FILE (docs/import.md)"
        )
    return FOLDER / f"{stem}.yaml"


def load(file: Path) -> CsvMapping:
    """Read and check a mapping.

    Raises:
        BadInput: as `read_record`.
    """
    return read_record(file, CsvMapping, "mapping")
