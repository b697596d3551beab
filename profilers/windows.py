"""When enough windows of a running job have been measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from pydantic import Field, model_validator

from profilers.steady.confidence import half_width
from warehouse.amounts import Repeats, Seconds
from warehouse.records import Record


@dataclass(frozen=True)
class Windows:
    """So many `windows` of `window_s` seconds or, with `interval`, until their mean is known.

    Known is once its 95 % confidence interval is within `interval` of it to both sides (0.02: 2 %),
    or with `most_windows`; never with fewer than `windows`.
    """

    windows: int
    window_s: float
    interval: float | None = None
    most_windows: int | None = None

    def are_enough(self, values: Sequence[float]) -> bool:
        """Tell whether that is so after windows with these values."""
        if len(values) < self.windows:
            return False
        if self.interval is None or len(values) >= (self.most_windows or self.windows):
            return True
        return half_width(values) <= self.interval


class Settings(Record):
    """Windows of each scenario: see `Windows`."""

    windows: Repeats = 3
    window_s: Seconds = 10
    interval: float | None = Field(default=None, gt=0, lt=1, allow_inf_nan=False)
    most_windows: Repeats | None = None

    @model_validator(mode="after")
    def _interval_has_an_end(self) -> Self:
        if (self.interval is None) != (self.most_windows is None):
            raise ValueError("interval and most_windows belong together; give both or neither")
        return self

    @property
    def expected_s(self) -> float:
        """Seconds of a scenario: its windows, and about one more until it is stationary."""
        return ((self.most_windows or self.windows) + 1) * self.window_s
