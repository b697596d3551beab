"""What operations take, cost, and by how much they vary (section III of Ceer, Figs. 2 to 5)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from forecasting.ceer_study import Measured, usd_per_hour
from models.ceer.analysis import deviations, type_times
from models.ceer.classes import Classes, shares
from models.ceer.features import table as sizes
from models.ceer.kinds import typed
from models.ceer.observed import computing
from models.ceer.predictor import Ceer
from models.ceer.regression import fit

_FORM = {"linear": ("1", "input")}
_SHOWN = 3
"""Types whose time is shown by their input: those that take most."""


@dataclass(frozen=True)
class ByInput:
    """The time of operations of a heavy type by their input alone.

    Attributes:
        type: of the operations.
        points: node_type, input (megabytes) and mean_us.
        lines: by node type, what an operation takes, and what a megabyte more does, microseconds.
        r_squared: of each line.
    """

    type: str
    points: pl.DataFrame
    lines: Mapping[str, tuple[float, float]]
    r_squared: tuple[float | None, ...]


@dataclass(frozen=True)
class Regressions:
    """What the times of a heavy type are fitted with, on all node types.

    `sum_error` is that of all operations of a DNN that was left out; `points` the most operations
    that one of them saw.
    """

    type: str
    forms: tuple[str, ...]
    r_squared: tuple[float | None, ...]
    sum_error: tuple[float | None, ...]
    points: int


@dataclass(frozen=True)
class Operations:
    """The operations of DNNs that predictors saw.

    Attributes:
        threshold_us: types are heavy that take as long or longer in the mean on the slowest type.
        slowest: that node type.
        shares: dnn, node_type, class and share of the time of all operations.
        times: heavy types: type, node_type, mean_us and usd (of one operation), as
            `models.ceer.analysis.type_times` returns them.
        deviations: heavy types: node_type, deviation and share, as `models.ceer.analysis` has them.
        by_input: the heavy types that take most.
        regressions: of all heavy types.
    """

    threshold_us: float
    slowest: str
    shares: pl.DataFrame
    times: pl.DataFrame
    deviations: pl.DataFrame
    by_input: tuple[ByInput, ...]
    regressions: tuple[Regressions, ...]


def operations(measured: Measured, model: Ceer) -> Operations:
    """Return what operations take; `model` is fitted to the DNNs that predictors saw."""
    classes, settings = model.parameters.classes, model.parameters.settings
    rows = typed(computing(measured.fitted[0]), settings)
    is_heavy = pl.col("class") == "heavy"
    return Operations(
        threshold_us=settings.threshold_us,
        slowest=classes.slowest,
        shares=shares(rows, classes),
        times=type_times(rows, classes, usd_per_hour(measured)).filter(is_heavy),
        deviations=deviations(rows, classes).filter(is_heavy),
        by_input=tuple(_by_input(rows, kind) for kind in _largest(rows, classes)),
        regressions=tuple(_regressions(model)),
    )


def _largest(rows: pl.DataFrame, classes: Classes) -> list[str]:
    spent = (
        rows.filter(pl.col("type").is_in(classes.heavy))
        .group_by("type")
        .agg((pl.col("count") * pl.col("mean_us")).sum().alias("us"))
    )
    return spent.sort("us", "type", descending=[True, False])["type"].head(_SHOWN).to_list()


def _by_input(rows: pl.DataFrame, kind: str) -> ByInput:
    mine = rows.filter(pl.col("type") == kind)
    points = pl.concat([mine, sizes(mine)], how="horizontal")
    lines, explained = {}, []
    for (name,), one in points.sort("node_type").group_by("node_type", maintain_order=True):
        found = fit(one, operation_type=kind, node_type=str(name), forms=_FORM, weights="equal")
        by = dict(zip(found.terms, found.coefficients_us, strict=True))
        lines[str(name)] = by.get("1", 0.0), by.get("input", 0.0)
        explained.append(found.r_squared)
    return ByInput(kind, points.select("node_type", "input", "mean_us"), lines, tuple(explained))


def _regressions(model: Ceer) -> Iterator[Regressions]:
    for kind in model.parameters.classes.heavy:
        mine = [one for one in model.parameters.regressions if one.type == kind]
        yield Regressions(
            type=kind,
            forms=tuple(sorted({one.form for one in mine})),
            r_squared=tuple(one.r_squared for one in mine),
            sum_error=tuple(one.sum_error for one in mine),
            points=max(one.points for one in mine),
        )
