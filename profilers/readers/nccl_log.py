"""The text that nccl-tests print: header lines name the columns, rows follow.

Releases differ in `redop`, `root`, `error` or `#wrong`, and the first ones had no line of units.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from profilers.readers.contract import MemoryCounter, describe_repeat, lines
from profilers.readers.nccl_measured import (
    CPU_TIME,
    ZERO_BYTES,
    NcclResults,
    NcclTime,
    RoundedNumber,
    check_collective,
    check_row,
    checked_time,
    is_size_over_time,
    nccl_version,
)
from warehouse.records import BadInput

_RANK = re.compile(
    r"#\s+Rank\s+([0-9]{1,9})(?:\s+Group\s+([0-9]{1,9}))?"
    r"(?:.*?\[[\w:.]+\]|.*?\bdevice\s+[0-9]{1,9})\s+(.{1,200})"
)
_LIKE_A_RANK = re.compile(r"#\s+Rank\s+[0-9]")
_COLLECTIVE = re.compile(r"#\s*Collective test starting:\s*(\S+)")
_VERSION = re.compile(r"nccl-library=([0-9]{1,9})|NCCL version ([0-9]{1,4}(?:\.[0-9]{1,4}){1,4})")
_TESTS_VERSION = re.compile(r"# nccl-tests version (\S{1,60})")
_COUNT = re.compile(r"[0-9]{1,18}")
_ROW_WITHIN = re.compile(
    r"(?<![0-9])[0-9]{1,18}\s+[0-9]{1,18}\s+(?:float|double|half|bfloat16|char|u?int[0-9]*|"
    r"fp8\w{0,9}|f8\w{0,9})\s+\w{1,20}\s+[-0-9]"
)
"""What a row begins with, wherever it stands in a line."""
_LABEL = re.compile(r"\s*[\[(<].*[\])>]:?\s*\Z")
_UNITS_S = {"(us)": 1e-6, "(ms)": 1e-3, "(s)": 1.0}


@dataclass
class _Log:
    """What the lines so far say of the ranks and of the columns to come."""

    kept: MemoryCounter
    ranks: dict[tuple[int, int], str] = field(default_factory=dict)
    places: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    prefix: str = ""
    label: str = ""
    """A prefix in brackets, which launchers also put where a line went on after a pause."""
    unit_s: float | None = None
    rows: int = 0
    unread_rank: str = ""

    def header(self, where: str, label: str, before: str, line: str) -> None:
        """Take a line from its # on, and what stands before that, with and without known prefixes.

        Raises:
            BadInput: two columns of one name.
        """
        words = line.lstrip("# ").split()
        if "Using devices" in line and self.rows:
            self.ranks, self.rows, self.unread_rank = {}, 0, ""
        if rank := _RANK.match(line):
            self.kept.event()
            self.kept.text(rank[3])
            self.ranks[int(rank[2] or 0), int(rank[1])] = rank[3].strip()
        elif _LIKE_A_RANK.match(line):
            self.unread_rank = self.unread_rank or f"{where}: `{line:.80}`"
        elif "in-place" in words or "out-of-place" in words:
            self.places = [word for word in words if word in ("in-place", "out-of-place")]
        elif words and words[0] in ("size", "bytes") and {"time", "cputime"} & set(words):
            _check_columns(where, words)
            self.columns, self.unit_s, self.prefix = words, None, before
            self.label = label.strip() if _LABEL.match(label) else ""
        elif self.columns and (unit := next((_UNITS_S[w] for w in words if w in _UNITS_S), None)):
            self.unit_s = unit

    def group_size(self, where: str) -> int:
        """Return how many ranks reduce together: those of the first group.

        Raises:
            BadInput: no ranks are listed, or not all.
        """
        if self.unread_rank:
            raise BadInput(
                f"{self.unread_rank} lists a rank, but not as nccl-tests do (# Rank 0 … on host "
                "device 0 name), so it does not count; say how many ranks there were with "
                "--world-size"
            )
        if not self.ranks:
            raise BadInput(
                f"{where}: no line above lists ranks (# Rank 0 …); say how many there were with "
                "--world-size"
            )
        highest = max(rank for _, rank in self.ranks)
        if highest >= len(self.ranks):
            raise BadInput(
                f"{where}: the list of ranks above goes up to {highest} but has {len(self.ranks)}; "
                "it was cut: say how many there were with --world-size"
            )
        first = min(self.ranks)[0]
        return sum(group == first for group, _ in self.ranks)


def read(path: Path, world_size: int | None) -> NcclResults:
    """Return what a log says.

    `world_size` overrules the ranks that the log lists.

    Raises:
        BadInput: another collective, a row that cannot be read, ranks that are not known, or
            nothing that is a row.
    """
    log, results = _Log(MemoryCounter(path)), NcclResults()
    unread = ""
    for number, raw in lines(path):
        line = unprefixed(raw.replace(log.label, "") if log.label else raw)
        where = f"{path} line {number}"
        if match := _TESTS_VERSION.search(line):
            results.software["nccl-tests"] = match[1]
        if match := _VERSION.search(line):
            results.software["nccl"] = match[2] or nccl_version(int(match[1]))
        before, mark, rest = line.partition("#")
        if mark and (collective := _COLLECTIVE.match(mark + rest)):
            check_collective(where, collective[1])
        if mark:
            log.header(where, raw.partition("#")[0], before, mark + rest)
        line = line.removeprefix(log.prefix).lstrip()
        if log.columns and _is_row(line, log.columns):
            results.devices |= set(log.ranks.values()) if log.rows == 0 else set()
            for row in _row(where, line.split(), log, world_size, results):
                results.add(row, log.kept)
            log.rows += 1
        elif _ROW_WITHIN.search(line):
            unread = unread or f"{where}: `{raw.strip():.60}`"
            results.left_out["lines that look like rows behind something unknown"] += 1
        elif line and not mark:
            results.left_out["lines of other programs"] += 1
    if unread and not results.measured:
        why = "what stands before it is unknown" if log.columns else "no line above names columns"
        raise BadInput(f"{unread} looks like a row, but {why}; mend that (docs/import.md)")
    return results


def _check_columns(where: str, columns: Sequence[str]) -> None:
    """Refuse two columns of one name: those of a place begin with its time, and come again."""
    starts = [i for i, name in enumerate(columns) if name in ("time", "cputime")]
    for start, end in itertools.pairwise([0, *starts, len(columns)]):
        if twice := describe_repeat(columns[start:end], first=start + 1):
            raise BadInput(f"{where}: two columns of one name: {twice}; rename one")


def _is_row(line: str, columns: Sequence[str]) -> bool:
    words = line.split(maxsplit=3)
    return (
        len(words) > 2
        and bool(_COUNT.fullmatch(words[0]))
        and bool(
            _COUNT.fullmatch(words[1]) or (columns[1] == "time" and RoundedNumber.of(words[1]))
        )
    )


def _row(
    where: str, words: Sequence[str], log: _Log, world_size: int | None, results: NcclResults
) -> Iterator[NcclTime]:
    names = [name for name in log.columns if name != "timestamp"]
    extra = len(words) - len(names)
    if extra < 0 or (extra > 0 and "timestamp" not in log.columns):
        raise BadInput(
            f"{where}: {len(words)} columns, but the header above names {len(names)} "
            f"({' '.join(names):.120}); remove the line if it was cut off or mixed with another"
        )
    if "cputime" in names:
        raise BadInput(f"{where}: {CPU_TIME}")
    starts = [i for i, name in enumerate(names) if name == "time"]
    common = dict(zip(names[: starts[0]], words, strict=False))
    places = log.places if len(log.places) == len(starts) else []
    size, kind = int(words[0]), common.get("type", "unknown")
    operation = common.get("redop", common.get("op"))
    count = common.get("count", common.get("N"))
    check_row(
        where,
        size,
        int(count) if count and _COUNT.fullmatch(count) else None,
        kind,
        operation,
        common.get("root"),
    )
    if size == 0:
        results.left_out[ZERO_BYTES] += len(starts)
        return
    ranks = world_size or log.group_size(where)
    for i, (start, end) in enumerate(itertools.pairwise([*starts, len(names)])):
        cells = dict(zip(names[start:end], words[start:end], strict=True))
        time, algorithm = _number(where, cells, "time"), _number(where, cells, "algbw")
        unit_s = log.unit_s or _inferred_unit_s(where, size, time, algorithm)
        place = (
            places[i] if places else ("out-of-place", "in-place")[i] if len(starts) == 2 else None
        )
        yield NcclTime(
            where,
            ranks,
            kind,
            operation or "unknown",
            size,
            None if place is None else place == "in-place",
            checked_time(where, time, unit_s),
            unit_s,
            algorithm,
            _number(where, cells, "busbw"),
            wrong=cells.get("#wrong", "0") not in ("N/A", "0", "0e+00"),
        )


def _number(where: str, cells: Mapping[str, str], name: str) -> RoundedNumber | None:
    """Return the number in a column, None where there is none."""
    if cells.get(name, "N/A") == "N/A":
        return None
    if (number := RoundedNumber.of(cells[name])) is None:
        raise BadInput(f"{where}: column {name}: expected a number, found {cells[name]!r:.40}")
    return number


def _inferred_unit_s(
    where: str, size: int, time: RoundedNumber | None, algorithm_GBps: RoundedNumber | None
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


# What launchers and viewers of logs put before each line of a program.


_COLOUR = re.compile(r"\x1b\[[0-9;]{0,16}m")
_PREFIX = re.compile(
    r"""\s*(?:
        \[(?:[\w.-]{1,80}@)?[0-9]{1,9},[0-9]{1,9}\](?:<std(?:out|err|diag)>:?)?  # mpirun
        | [0-9]{1,6}:                                             # srun --label
        | \[pod/[^\]\s]{1,300}\]                                  # kubectl logs --prefix
        | \[(?:rank|default)[0-9]{1,6}\]:                         # torchrun
        | \((?:[\w.:-]{1,120}\ )?pid=[0-9]{1,9}(?:,\ ip=[\w.:]{1,45})?\)  # Ray
        | \[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T\ ][0-9:]{8}(?:[.,][0-9]{1,9})?(?:Z|[+-][0-9:]{4,5})?\]?:?
        | >                                                       # Markdown, mail
    )\s?""",
    re.VERBOSE,
)
_MOST = 8
"""Prefixes before one line: a launcher inside another, in a quote."""


def unprefixed(line: str) -> str:
    """Return a line of a log without colours and known prefixes, stripped."""
    if "\x1b" in line:
        line = _COLOUR.sub("", line)
    start = 0
    for _ in range(_MOST):
        if (match := _PREFIX.match(line, start)) is None:
            break
        start = match.end()
    return line[start:].strip()
