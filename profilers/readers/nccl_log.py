"""The text that nccl-tests print: header lines name the columns, rows follow.

Releases differ in `redop`, `root`, `error` or `#wrong`. Launchers put labels before lines, and some
also where a line went on after a pause.
"""

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Self

from profilers.readers.contract import MemoryCounter, lines
from warehouse.records import BadInput

_RANK = re.compile(
    r"#\s+Rank\s+([0-9]{1,9})(?:\s+Group\s+([0-9]{1,9}))?"
    r"(?:.*?\[[\w:.]+\]|.*?\bdevice\s+[0-9]{1,9})\s+(.{1,200})"
)
_HOST = re.compile(r"\bon\s+(\S{1,200})\s+device\b")
_COLLECTIVE = re.compile(r"#\s*Collective test starting:\s*(\S+)")
_VERSION = re.compile(r"nccl-library=([0-9]{1,9})|NCCL version ([0-9]{1,4}(?:\.[0-9]{1,4}){1,4})")
_TESTS_VERSION = re.compile(r"# nccl-tests version (\S{1,60})")
_COUNT = re.compile(r"[0-9]{1,18}")
_ROW = re.compile(
    r"(?<![\w.])[0-9]{1,18}\s+[0-9]{1,18}\s+(?:float|double|half|bfloat16|char|u?int[0-9]*|"
    r"fp8\w{0,9}|f8\w{0,9})\s+\w{1,20}\s+[-0-9].*"
)
"""A row, whatever label stands before it."""
_BARE_ROW = re.compile(r"[0-9]{1,18}\s+[0-9][0-9.e+-]{0,30}\s+[0-9].*")
"""A row of size and time, where the header names no more."""
_OURS = "all_reduce"
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,16}m")
_LABEL = re.compile(r"\s*[\[(<].*[\])>]:?\s*\Z")
_UNITS_S = {"(us)": 1e-6, "(ms)": 1e-3, "(s)": 1.0}
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
_LEAST_TIME = 1e-6
"""In whichever unit a log prints."""
SLACK = 1e-9
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

    @property
    def is_size_over_time(self) -> bool:
        """Say whether its algorithm bandwidth is size / time, as far as the digits tell."""
        algorithm, units = self.algorithm_GBps, self.unit_s * 1e9
        if algorithm is None:
            return True
        most = algorithm.high * self.time.high * units * (1 + SLACK)
        least = max(algorithm.low, 0) * max(self.time.low, 0) * units * (1 - SLACK)
        return least <= self.size_bytes <= most


@dataclass
class NcclResults:
    """What a file says: times, names of its GPUs, versions, and what is in no table, by why."""

    measured: list[NcclTime] = field(default_factory=list)
    devices: set[str] = field(default_factory=set)
    software: dict[str, str] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass
class _Log:
    """What the lines so far say of the ranks and of the columns to come."""

    kept: MemoryCounter
    ranks: dict[tuple[int, int], str] = field(default_factory=dict)
    hosts: dict[tuple[int, int], str] = field(default_factory=dict)
    places: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    label: str = ""
    """What stands in brackets before the line of columns."""
    unit_s: float | None = None
    rows: int = 0

    def header(self, label: str, line: str) -> None:
        """Take a line from its # on, and what stands before that."""
        words = line.lstrip("# ").split()
        if "Using devices" in line and self.rows:
            self.ranks, self.hosts, self.rows = {}, {}, 0
        if rank := _RANK.match(line):
            self.kept.event()
            self.kept.text(rank[3])
            place = int(rank[2] or 0), int(rank[1])
            self.ranks[place] = rank[3].strip()
            if host := _HOST.search(line):
                self.kept.text(host[1])
                self.hosts[place] = host[1]
        elif "in-place" in words or "out-of-place" in words:
            self.places = [word for word in words if word in ("in-place", "out-of-place")]
        elif words and words[0] in ("size", "bytes") and {"time", "cputime"} & set(words):
            self.columns, self.unit_s = words, None
            self.label = label.strip() if _LABEL.match(label) else ""
        elif self.columns and (unit := next((_UNITS_S[w] for w in words if w in _UNITS_S), None)):
            self.unit_s = unit

    def group_size(self, where: str) -> int:
        """Return how many ranks reduce together: those of the first group.

        Raises:
            BadInput: no ranks are listed, or not all.
        """
        if not self.ranks:
            raise BadInput(
                f"{where}: no line above lists ranks as nccl-tests do (# Rank 0 … on host device 0 "
                "name); say how many there were with --world-size"
            )
        highest = max(rank for _, rank in self.ranks)
        if highest >= len(self.ranks):
            raise BadInput(
                f"{where}: the list of ranks above goes up to {highest} but has {len(self.ranks)}; "
                "it was cut: say how many there were with --world-size"
            )
        first = min(self.ranks)[0]
        return sum(group == first for group, _ in self.ranks)

    def host_count(self, ranks: int) -> int | None:
        """Return on how many hosts so many ranks are; None: it does not list that many."""
        if not self.hosts:
            return None
        first = min(self.hosts)[0]
        hosts = [host for (group, _), host in self.hosts.items() if group == first]
        return len(set(hosts)) if len(hosts) == ranks else None


def read(path: Path, world_size: int | None) -> NcclResults:
    """Return what a log says.

    `world_size` overrules the ranks that the log lists.

    Raises:
        BadInput: another collective, a row that cannot be read, or ranks that are not known.
    """
    log, results = _Log(MemoryCounter(path)), NcclResults()
    for number, raw in lines(path):
        line = _COLOUR.sub("", raw.replace(log.label, " ") if log.label else raw).strip()
        where = f"{path} line {number}"
        if match := _TESTS_VERSION.search(line):
            results.software["nccl-tests"] = match[1]
        if match := _VERSION.search(line):
            results.software["nccl"] = match[2] or _version(int(match[1]))
        before, mark, header = raw.partition("#")
        if mark:
            if (starts := _COLLECTIVE.match(mark + header)) and not starts[1].startswith(_OURS):
                raise BadInput(f"{where}: measures {starts[1]!r:.60}; expected all_reduce_perf")
            log.header(before, mark + header)
        row = _ROW.search(line)
        if row is None and log.columns[1:2] == ["time"]:
            row = _BARE_ROW.match(line)
        if row is not None:
            results.devices |= set(log.ranks.values()) if log.rows == 0 else set()
            for time in _times(where, row[0].split(), log, world_size, results):
                log.kept.event()
                log.kept.text(f"{where}{time.kind}{time.operation}")
                results.measured.append(time)
            log.rows += 1
        elif line and not mark:
            results.left_out["lines of other programs"] += 1
    return results


def _times(
    where: str, words: Sequence[str], log: _Log, world_size: int | None, results: NcclResults
) -> Iterator[NcclTime]:
    names = [name for name in log.columns if name != "timestamp"]
    extra = len(words) - len(names)
    if not names or extra < 0 or (extra > 0 and "timestamp" not in log.columns):
        raise BadInput(
            f"{where}: {len(words)} columns, but the header above names {len(names)} "
            f"({' '.join(names):.120}); remove the line if it was cut off or mixed with another"
        )
    if "cputime" in names:
        raise BadInput(
            f"{where}: the times are those in which the CPU started an all-reduce, not those it "
            "took; run all_reduce_perf without -C"
        )
    starts = [i for i, name in enumerate(names) if name == "time"]
    common = dict(zip(names[: starts[0]], words, strict=False))
    places = log.places if len(log.places) == len(starts) else []
    size, kind = int(words[0]), common.get("type", "unknown")
    operation = common.get("redop", common.get("op"))
    count = common.get("count", common.get("N", ""))
    elements = int(count) if _COUNT.fullmatch(count) else None
    _check_row(where, size, elements, kind, operation, common.get("root"))
    if size == 0:
        results.left_out["all-reduces of 0 bytes"] += len(starts)
        return
    ranks = world_size or log.group_size(where)
    for i, (start, end) in enumerate(itertools.pairwise([*starts, len(names)])):
        cells = dict(zip(names[start:end], words[start:end], strict=True))
        time = _number(where, cells, "time")
        if time is None or time.value < _LEAST_TIME:
            found = None if time is None else time.value
            raise BadInput(f"{where}: expected a time above 0, found {found}; remove the line")
        place = (
            places[i] if places else ("out-of-place", "in-place")[i] if len(starts) == 2 else None
        )
        row = NcclTime(
            where,
            ranks,
            kind,
            operation or "unknown",
            size,
            None if place is None else place == "in-place",
            time,
            log.unit_s or 0,
            _number(where, cells, "algbw"),
            _number(where, cells, "busbw"),
            wrong=cells.get("#wrong", "0") not in ("N/A", "0", "0e+00"),
            nodes=log.host_count(ranks),
        )
        yield row if log.unit_s else _with_unit(row)


def _with_unit(row: NcclTime) -> NcclTime:
    """Return a time in the unit that its bandwidth tells; first releases print milliseconds."""
    for unit_s in _UNITS_S.values():
        told = replace(row, unit_s=unit_s)
        if row.algorithm_GBps and row.algorithm_GBps.low > 0 and told.is_size_over_time:
            return told
    raise BadInput(
        f"{row.where}: no line (us) or (ms) under the header, and the bandwidth does not tell the "
        "unit of the time; add that line"
    )


def _check_row(
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


def _number(where: str, cells: Mapping[str, str], name: str) -> RoundedNumber | None:
    """Return the number in a column, None where there is none."""
    if cells.get(name, "N/A") == "N/A":
        return None
    if (number := RoundedNumber.of(cells[name])) is None:
        raise BadInput(f"{where}: column {name}: expected a number, found {cells[name]!r:.40}")
    return number


def _version(code: int) -> str:
    """Return 2.19.3 for NCCL's 21903, 2.7.8 for 2708."""
    major, rest = divmod(code, 10000) if code >= 10000 else divmod(code, 1000)
    return f"{major}.{rest // 100}.{rest % 100}"
