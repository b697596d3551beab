"""A wall clock that a test can set: that of this process, not of the machine."""

import sys
import time
from datetime import datetime, timedelta, tzinfo

import pytest

DAY = timedelta(days=1)
_ROOMS = ("assets", "pipelines", "profilers", "warehouse")


class _AnyDate(type):
    """Takes what libraries make, dates of the real class, for dates of its own."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, datetime)


class WallClock:
    """Replaces every way in which the modules of this process read the wall clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ahead = timedelta(0)
        real_ns, real_gettime_ns = time.time_ns, time.clock_gettime_ns

        def time_ns() -> int:
            return real_ns() + self._ahead // timedelta(microseconds=1) * 1000

        def gettime_ns(number: int) -> int:
            return time_ns() if number == time.CLOCK_REALTIME else real_gettime_ns(number)

        class Date(datetime, metaclass=_AnyDate):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
                return datetime.fromtimestamp(time_ns() / 1e9, tz)

        monkeypatch.setattr(time, "time_ns", time_ns)
        monkeypatch.setattr(time, "time", lambda: time_ns() / 1e9)
        monkeypatch.setattr(time, "clock_gettime_ns", gettime_ns)
        monkeypatch.setattr(time, "clock_gettime", lambda number: gettime_ns(number) / 1e9)
        for name, module in list(sys.modules.items()):
            is_ours = name.partition(".")[0] in _ROOMS
            if is_ours and getattr(module, "datetime", None) is datetime:
                monkeypatch.setattr(module, "datetime", Date)

    def set(self, by: timedelta) -> None:
        """Set it forward by so much, or back."""
        self._ahead += by
