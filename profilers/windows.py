"""When enough windows of a running job have been measured."""

from collections.abc import Sequence
from dataclasses import dataclass

from profilers.steady.confidence import half_width


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
