"""What a fit of Ceer keeps, and how it predicts."""

from typing import Literal

from pydantic import Field

from models.ceer.classes import HEAVY_US, Classes
from models.ceer.overhead import DeviceOverhead
from models.ceer.regression import Regression, Weights
from warehouse.records import Record


class Settings(Record):
    """How to fit and to predict; the defaults go past the paper, `PAPER` is the paper.

    `light`: how long light and CPU operations take, `median`: one figure for all of a class,
    whatever the type, size and node type; `regression`: a regression for each type, as for heavy
    ones. `forms` are those of regressions and of S. `by_kind`: PyTorch's convolutions of single
    pixels, of groups and of single channels are types of their own. `coverage` is that of
    intervals.
    """

    threshold_us: float = Field(default=HEAVY_US, gt=0)
    forms: Literal["paper", "own"] = "own"
    weights: Weights = "balanced"
    light: Literal["median", "regression"] = "regression"
    by_kind: bool = True
    coverage: float = Field(default=0.9, gt=0, lt=1)


PAPER = Settings(forms="paper", weights="equal", light="median", by_kind=False)
"""The models of section IV as published."""


class Median(Record):
    """The median time of the operations of a class over all node types and DNNs.

    `error` is the root mean square, over DNNs and node types, of the relative error of their sum.
    """

    us: float = Field(ge=0)
    operations: int = Field(ge=1)
    error: float = Field(ge=0)


class Parameters(Record):
    """All that was fitted; `dnns` are those that were seen."""

    settings: Settings
    dnns: tuple[str, ...]
    classes: Classes
    regressions: tuple[Regression, ...]
    light: Median | None
    cpu: Median | None
    overheads: tuple[DeviceOverhead, ...]
