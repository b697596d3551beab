"""The text that nccl-tests print: header lines name the columns, rows follow.

Releases differ in `redop`, `root`, `error` or `#wrong`, and the first ones had no line of units.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from profilers.readers.nccl_measured import Measured, Printed, is_size_over_time
from warehouse.records import BadInput

_LAUNCHER = re.compile(r"^\s*(?:\[[\d,]+\](?:<std(?:out|err)>:?)?|\d+:)\s?")
_RANK = re.compile(r"#\s+Rank\s+([0-9]{1,9})(?:\s+Group\s+([0-9]{1,9}))?.*?\[[\w:.]+\]\s+(.+)")
_COLLECTIVE = re.compile(r"#\s*Collective test starting:\s*(\S+)")
_VERSION = re.compile(r"nccl-library=([0-9]{1,9})|NCCL version (\d+(?:\.\d+)+)")
_TESTS_VERSION = re.compile(r"# nccl-tests version (\S+)")
_COUNT = re.compile(r"[0-9]{1,18}")
_SHORTEST_S = 1e-12
_UNITS_S = {"(us)": 1e-6, "(ms)": 1e-3, "(s)": 1.0}
CPU_TIME = (
    "the times are those in which the CPU started an all-reduce, not those it took; run "
    "all_reduce_perf without -C"
)


@dataclass
class _Log:
    """What the lines so far say of the ranks and of the columns to come."""

    ranks: dict[tuple[int, int], str] = field(default_factory=dict)
    places: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    unit_s: float | None = None
    rows: int = 0

    def header(self, line: str) -> None:
        """Take a line that begins with #."""
        words = line.lstrip("# ").split()
        if "Using devices" in line and self.rows:
            self.ranks, self.rows = {}, 0
        if rank := _RANK.match(line):
            self.ranks[int(rank[2] or 0), int(rank[1])] = rank[3].strip()
        elif "in-place" in words or "out-of-place" in words:
            self.places = [word for word in words if word in ("in-place", "out-of-place")]
        elif words and words[0] in ("size", "bytes") and {"time", "cputime"} & set(words):
            self.columns, self.unit_s = words, None
        elif self.columns and (unit := next((_UNITS_S[w] for w in words if w in _UNITS_S), None)):
            self.unit_s = unit


def from_text(
    path: Path, text: str, world_size: int | None
) -> tuple[list[Measured], Mapping[str, str], Mapping[str, str]]:
    """Return the rows of a log, what it says of the hosts, and versions.

    `world_size` overrules the ranks that the log lists.

    Raises:
        BadInput: another collective, a row that cannot be read, or ranks that are not known.
    """
    log, found = _Log(), list[Measured]()
    devices, software = set[str](), dict[str, str]()
    for number, raw in enumerate(text.splitlines(), start=1):
        line = _LAUNCHER.sub("", raw).strip()
        where = f"{path} line {number}"
        if said := _TESTS_VERSION.search(line):
            software["nccl-tests"] = said[1]
        if said := _VERSION.search(line):
            software["nccl"] = said[2] or version(int(said[1]))
        if collective := _COLLECTIVE.match(line):
            check_collective(where, collective[1])
        if line.startswith("#"):
            log.header(line)
        elif log.columns and _is_row(line):
            words = line.split()
            ranks = world_size or _group_size(log.ranks)
            if ranks is None:
                raise BadInput(
                    f"{where}: no line above lists ranks (# Rank 0 …); say how many there were "
                    "with --world-size"
                )
            devices |= set(log.ranks.values())
            found += _row(where, words, log, ranks)
            log.rows += 1
    return found, {"gpu": ", ".join(sorted(devices))} if devices else {}, software


def _is_row(line: str) -> bool:
    words = line.split()
    return len(words) > 2 and all(_COUNT.fullmatch(word) for word in words[:2])


def _group_size(ranks: Mapping[tuple[int, int], str]) -> int | None:
    """Ranks of the first group: those that reduce together."""
    return sum(group == min(ranks)[0] for group, _ in ranks) if ranks else None


def _row(where: str, words: Sequence[str], log: _Log, world_size: int) -> Iterator[Measured]:
    names = [name for name in log.columns if name != "timestamp"]
    extra = len(words) - len(names)
    if extra < 0 or (extra > 0 and "timestamp" not in log.columns):
        raise BadInput(
            f"{where}: {len(words)} columns, but the header above names {len(names)} "
            f"({' '.join(names)}); remove the line if it was cut off or mixed with another"
        )
    if "cputime" in names:
        raise BadInput(f"{where}: {CPU_TIME}")
    starts = [i for i, name in enumerate(names) if name == "time"]
    common = dict(zip(names[: starts[0]], words, strict=False))
    places = log.places if len(log.places) == len(starts) else []
    for i, (start, end) in enumerate(itertools.pairwise([*starts, len(names)])):
        cells = dict(zip(names[start:end], words[start:end], strict=True))
        time, algorithm = _number(where, cells, "time"), _number(where, cells, "algbw")
        size = int(words[0])
        if size == 0:
            continue
        unit_s = log.unit_s or _inferred_unit_s(where, size, time, algorithm)
        place = places[i] if places else ("out-of-place", "in-place")[i] if starts[1:] else None
        yield Measured(
            where,
            world_size,
            common.get("type", "unknown"),
            common.get("redop", common.get("op", "unknown")),
            size,
            None if place is None else place == "in-place",
            positive(where, time, unit_s),
            unit_s,
            algorithm,
            _number(where, cells, "busbw"),
            wrong=cells.get("#wrong", "0") not in ("N/A", "0", "0e+00"),
        )


def _number(where: str, cells: Mapping[str, str], name: str) -> Printed | None:
    """Return the number in a column, None where there is none."""
    if cells.get(name, "N/A") == "N/A":
        return None
    if (number := Printed.of(cells[name])) is None:
        raise BadInput(f"{where}: column {name}: expected a number, found {cells[name]!r:.40}")
    return number


def positive(where: str, time: Printed | None, unit_s: float) -> Printed:
    """Return a time if it is one.

    Raises:
        BadInput: there is none, or it is not above 0.
    """
    if time is None or time.value * unit_s < _SHORTEST_S:
        found = None if time is None else time.value
        raise BadInput(f"{where}: expected a time above 0, found {found}; remove the line")
    return time


def _inferred_unit_s(
    where: str, size: int, time: Printed | None, algorithm_GBps: Printed | None
) -> float:
    """Return the unit in which size / time is the printed bandwidth; first releases print ms."""
    if time and algorithm_GBps and algorithm_GBps.low > 0:
        for unit_s in _UNITS_S.values():
            if is_size_over_time(size, time, unit_s, algorithm_GBps):
                return unit_s
    raise BadInput(
        f"{where}: no line (us) or (ms) under the header, and the bandwidth does not tell the "
        "unit of the time; add that line"
    )


def check_collective(where: str, program: str) -> None:
    """Refuse the output of another program than all_reduce_perf.

    Raises:
        BadInput: it is another.
    """
    if not program.startswith("all_reduce"):
        raise BadInput(f"{where}: measures {program}; expected all_reduce_perf")


def version(code: int) -> str:
    """Return 2.19.3 for NCCL's 21903, 2.7.8 for 2708."""
    major, rest = divmod(code, 10000) if code >= 10000 else divmod(code, 1000)
    return f"{major}.{rest // 100}.{rest % 100}"
