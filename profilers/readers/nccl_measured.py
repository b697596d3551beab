"""Times of all-reduces as nccl-tests print them, checked against the bandwidths beside them.

Of an all-reduce of n ranks, bus is 2 (n − 1) / n of algorithm bandwidth, and that is size / time.
All three are printed rounded, so they agree as far as their digits tell and no further.
"""

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, Self

from profilers.readers.contract import MemoryCounter
from warehouse.records import BadInput

ELEMENT_BYTES = {
    "char": 1,
    "int8": 1,
    "uint8": 1,
    "half": 2,
    "bfloat16": 2,
    "int": 4,
    "int32": 4,
    "uint32": 4,
    "float": 4,
    "int64": 8,
    "uint64": 8,
    "double": 8,
}
"""Bytes of an element by its name; names of eight-bit floats differ in each release."""
_NUMBER = re.compile(r"[-+]?[0-9]{1,30}(?:\.[0-9]{0,30})?(?:[eE][-+]?[0-9]{1,3})?")
_SHORTEST_S = 1e-12
_SLACK = 1e-9
"""Share by which our own arithmetic on doubles may be off."""


@dataclass(frozen=True, slots=True)
class RoundedNumber:
    """A rounded number: what was rounded is from `low` to `high`."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, text: str) -> Self | None:
        """Return the number that a text is, None if it is none or infinite."""
        if not _NUMBER.fullmatch(text):
            return None
        number = Decimal(text)
        half = float(Decimal((0, (5,), int(number.as_tuple().exponent) - 1)))
        value = float(number)
        return cls(value, value - half, value + half) if math.isfinite(value + half) else None


@dataclass(frozen=True, slots=True)
class NcclTime:
    """One time of one size: `wrong` results make it worthless; bandwidths are GB/s as printed.

    `nodes` are hosts of its ranks, None: they are not listed. `where` is the file and the place in
    it.
    """

    where: str
    world_size: int
    kind: str
    operation: str
    size_bytes: int
    in_place: bool | None
    time: RoundedNumber
    unit_s: float
    algorithm_GBps: RoundedNumber | None
    bus_GBps: RoundedNumber | None
    wrong: bool
    nodes: int | None = None

    @property
    def seconds(self) -> float:
        """The time in seconds."""
        return self.time.value * self.unit_s


@dataclass
class NcclResults:
    """What a file says: times, names of its GPUs, versions, and what is in no table, by why."""

    measured: list[NcclTime] = field(default_factory=list)
    devices: set[str] = field(default_factory=set)
    software: dict[str, str] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)

    def add(self, row: NcclTime, kept: MemoryCounter) -> None:
        """Keep a time.

        Raises:
            BadInput: as `MemoryCounter`.
        """
        kept.event()
        for text in (row.where, row.kind, row.operation):
            kept.text(text)
        self.measured.append(row)


def checked_time(where: str, time: RoundedNumber | None, unit_s: float) -> RoundedNumber:
    """Return a time if it is one.

    Raises:
        BadInput: there is none, or it is not above 0.
    """
    if time is None or time.value * unit_s < _SHORTEST_S:
        value = None if time is None else time.value
        raise BadInput(f"{where}: expected a time above 0, found {value}; remove the line")
    return time


def check_collective(where: str, program: str) -> None:
    """Refuse the output of another program than all_reduce_perf.

    Raises:
        BadInput: it is another.
    """
    if not program.startswith("all_reduce"):
        raise BadInput(f"{where}: measures {program!r:.60}; expected all_reduce_perf")


def check_row(
    where: str,
    size_bytes: int,
    count: int | None,
    kind: str,
    operation: str | None,
    root: str | None,
) -> None:
    """Refuse a row whose columns say that it is no all-reduce; None: there is no such column.

    Source: nccl-tests, `*RunTest` and `TimeTest`. An all-reduce has an operation, no root (−1), and
    as many bytes as its elements; a reduce-scatter counts the elements of one rank.

    Raises:
        BadInput: it is of another collective.
    """
    element_bytes = 1 if kind.startswith(("f8", "fp8")) else ELEMENT_BYTES.get(kind)
    why = ""
    if root not in (None, "-1"):
        why = f"it has root {root:.20}, and an all-reduce has none (-1)"
    elif operation == "none":
        why = "it reduces nothing (redop none)"
    elif count is not None and element_bytes and size_bytes != count * element_bytes:
        why = f"{size_bytes} B are not {count} elements of type {kind:.20}"
    if why:
        raise BadInput(f"{where}: {why}, so this is no all-reduce; expected all_reduce_perf")


def nccl_version(code: int) -> str:
    """Return 2.19.3 for NCCL's 21903, 2.7.8 for 2708."""
    major, rest = divmod(code, 10000) if code >= 10000 else divmod(code, 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def is_size_over_time(
    size_bytes: int, time: RoundedNumber, unit_s: float, algorithm_GBps: RoundedNumber
) -> bool:
    """Say whether a bandwidth is that size in that time, as far as the digits tell."""
    most = algorithm_GBps.high * time.high * unit_s * 1e9
    least = max(algorithm_GBps.low, 0) * max(time.low, 0) * unit_s * 1e9
    return least <= size_bytes * (1 + _SLACK) and size_bytes <= most * (1 + _SLACK)


def check_bandwidths(measured: Sequence[NcclTime]) -> None:
    """Refuse bandwidths that are not those of the sizes, times and ranks beside them.

    Raises:
        BadInput: the message names the line, and how many ranks would have such bandwidths.
    """
    for row in measured:
        _check_ratio(row)
        if row.algorithm_GBps and not is_size_over_time(
            row.size_bytes, row.time, row.unit_s, row.algorithm_GBps
        ):
            is_GBps, printed_GBps = _distinct(
                row.size_bytes / row.seconds / 1e9, row.algorithm_GBps.value, "g"
            )
            raise BadInput(
                f"{row.where}: {row.size_bytes} bytes in {row.seconds:g} s are {is_GBps} GB/s, but "
                f"the algorithm bandwidth is {printed_GBps}; is the time that of the CPU alone "
                "(-C), or was the line altered?"
            )
    by_ranks = sorted(measured, key=lambda row: row.world_size)
    for world_size, group in itertools.groupby(by_ranks, lambda row: row.world_size):
        _check_ranks(world_size, list(group))


def _check_ratio(row: NcclTime) -> None:
    """Refuse bandwidths that all-reduces of no number of ranks have: their ratio is at most 2."""
    ratio = _ratio(row)
    if ratio is None or ratio[0] <= 2 * (1 + _SLACK):
        return
    assert row.bus_GBps and row.algorithm_GBps
    shown, _ = _distinct(row.bus_GBps.value / row.algorithm_GBps.value, 2, "f")
    raise BadInput(
        f"{row.where}: bus / algorithm bandwidth is {shown}, which no number of ranks gives (at "
        "most 2); is it another collective, or was the line altered?"
    )


def _distinct(first: float, second: float, form: Literal["f", "g"]) -> tuple[str, str]:
    """Return two numbers with as many digits as they differ in, four at least."""
    for digits in range(4, 18):
        texts = f"{first:.{digits}{form}}", f"{second:.{digits}{form}}"
        if texts[0] != texts[1]:
            break
    return texts


def _check_ranks(world_size: int, rows: Sequence[NcclTime]) -> None:
    ratios = [(row, *ratio) for row in rows if (ratio := _ratio(row))]
    expected = 2 - 2 / world_size
    wrong = [
        row
        for row, low, high in ratios
        if not low * (1 - _SLACK) <= expected <= high * (1 + _SLACK)
    ]
    if not wrong:
        return
    # The largest bandwidth has the most digits.
    first = max(wrong, key=lambda row: row.bus_GBps.value if row.bus_GBps else 0)
    assert first.bus_GBps and first.algorithm_GBps
    shown, expected_shown = _distinct(
        first.bus_GBps.value / first.algorithm_GBps.value, expected, "f"
    )
    raise BadInput(
        f"{first.where}: bus / algorithm bandwidth is {shown}, but an all-reduce of {world_size} "
        f"ranks has {expected_shown}; {_ranks_told((low, high) for _, low, high in ratios)}"
    )


def _ratio(row: NcclTime) -> tuple[float, float] | None:
    """Return between which values bus / algorithm bandwidth is; None where it tells nothing."""
    if row.algorithm_GBps is None or row.bus_GBps is None or row.algorithm_GBps.low <= 0:
        return None
    low = row.bus_GBps.low / row.algorithm_GBps.high
    return low, row.bus_GBps.high / row.algorithm_GBps.low


def _ranks_told(ratios: Iterable[tuple[float, float]]) -> str:
    """Say which numbers of ranks n have 2 (n − 1) / n within all the ratios."""
    lows, highs = zip(*ratios, strict=True)
    low, high = max(lows) * (1 - _SLACK), min(highs) * (1 + _SLACK)
    fewest = max(2, math.ceil(2 / (2 - low))) if low < 2 else math.inf
    most = math.floor(2 / (2 - high)) if high < 2 else math.inf
    if low > high or fewest > most:
        return "is it another collective, or were lines altered?"
    if most == math.inf:
        return f"at least {fewest} ranks have such bandwidths: say how many with --world-size"
    power = 1 << (int(most).bit_length() - 1)
    likely = fewest if fewest == most else power if fewest <= power else None
    return (
        f"was the list of ranks cut? Such bandwidths are those of {fewest} to {most} ranks: say "
        f"how many with --world-size{'' if likely is None else f' {likely}'}"
        # Of two ranks, a broadcast or a reduce has the same ratio.
        f"{', or is it another collective?' if most == 2 else ''}"
    )
