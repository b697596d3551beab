"""What a benchmark declares, and what it gives: a file of this folder has one as `BENCHMARK`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from warehouse.records import BadInput

if TYPE_CHECKING:
    import polars as pl

NAMES = ("gpu", "history", "simulator")
Say = Callable[[str], None]


class Figure(NamedTuple):
    """A figure, and how many times as large it is as a peer's in the same run."""

    what: str
    value: float
    unit: str
    ratio: float | None = None
    peer: str = ""


@dataclass(frozen=True)
class Outcome:
    """A table of figures, and sentences about all of them."""

    table: "pl.DataFrame"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Benchmark:
    """What is measured, what that needs, and how.

    Attributes:
        what: a sentence.
        needs: what has to be there, and how long it takes.
        measure: gets the sizes and who is told of progress.
        sizes: whole numbers from 1 (0 where that is the default) that a caller may change.
    """

    what: str
    needs: str
    measure: Callable[[Mapping[str, int], Say], Outcome]
    sizes: Mapping[str, int] = field(default_factory=dict)

    def run(self, given: Mapping[str, int], progress: Say) -> Outcome:
        """Measure with some sizes that are given.

        Raises:
            BadInput: it has no such size, or one is too small.
        """
        for name, value in given.items():
            if name not in self.sizes:
                known = ", ".join(self.sizes) or "none"
                raise BadInput(f"no size {name!r}; this benchmark has {known}")
            if value < (least := min(self.sizes[name], 1)):
                raise BadInput(f"{name} is {value}; expected {least} or more")
        return self.measure({**self.sizes, **given}, progress)


def read_benchmark(name: str) -> Benchmark:
    """Return a benchmark by its name.

    Raises:
        BadInput: there is none of that name.
    """
    if name not in NAMES:
        raise BadInput(f"no benchmark {name!r}; there are {', '.join(NAMES)}")
    benchmark: Benchmark = import_module(f"benchmarks.{name}").BENCHMARK
    return benchmark


def tabulated(*figures: Figure, notes: tuple[str, ...] = ()) -> Outcome:
    """Return figures as a table, of three digits each."""
    import polars as pl

    schema = {"what": pl.String, "value": pl.Float64, "unit": pl.String} | {
        "ratio": pl.Float64,
        "peer": pl.String,
    }
    frame = pl.DataFrame(figures, schema=schema, orient="row")
    return Outcome(frame.with_columns(pl.col("value", "ratio").round_sig_figs(3)), notes)
