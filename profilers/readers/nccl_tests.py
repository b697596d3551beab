"""Output of nccl-tests' all_reduce_perf (text or JSON, of NVIDIA or AMD) → table `allreduce`."""

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from profilers.probe import Setting
from profilers.readers import nccl_json, nccl_log
from profilers.readers.contract import ImportedRun, ReaderOptions, open_text
from profilers.readers.nccl_measured import NcclTime, check_bandwidths
from warehouse.records import BadInput

_JSON = re.compile(r'\A\s*(?:\[\s*)?\{|"(?:args|nccl_version|algBw)" ?:')
"""How a file begins that is JSON, maybe below a warning, which `documents` refuses."""
_HEAD_CHARACTERS = 1 << 12


def bus_bandwidth_Bps(size_bytes: float, world_size: int, seconds: float) -> float:
    """Return 2 s (n − 1) / (n t), what each link carries in a ring (Srift, section 4)."""
    return 2 * size_bytes * (world_size - 1) / (world_size * seconds)


def read(path: Path, options: ReaderOptions) -> Iterator[ImportedRun]:
    """Yield one run for each world size, data type and operation in the log.

    Times whose results were wrong are left out and counted in config `wrong_results`. The first
    run has the counts of what the file's tables lack.

    Raises:
        BadInput: no all-reduce in it, an unreadable row, or a world size that is not known or
            contradicts the printed bandwidths.
    """
    with open_text(path) as file:
        is_json = _JSON.search(file.read(_HEAD_CHARACTERS))
    found = (nccl_json if is_json else nccl_log).read(path, options.world_size)
    if not found.measured:
        raise BadInput(f"{path}: no row of an all-reduce; expected output of all_reduce_perf")
    check_bandwidths(found.measured)
    if wrong := sum(row.wrong for row in found.measured):
        found.left_out["times of wrong results"] += wrong
    if wrong == len(found.measured):
        raise BadInput(f"{path}: all {wrong} results are wrong, so no time is worth anything")

    def setting(one: NcclTime) -> tuple[int, str, str]:
        return one.world_size, one.kind, one.operation

    host = {"gpu": ", ".join(sorted(found.devices))} if found.devices else {}
    for (world_size, kind, operation), group in itertools.groupby(
        sorted(found.measured, key=setting), setting
    ):
        rows = list(group)
        right = [row for row in rows if not row.wrong]
        config: dict[str, Setting] = {
            "collective": "all_reduce",
            "world_size": world_size,
            "data_type": kind,
            "reduction": operation,
            "wrong_results": len(rows) - len(right),
        }
        if right:
            left_out = dict(found.left_out)
            found.left_out.clear()
            tables = {"allreduce": _frame(right)}
            yield ImportedRun(tables, config, host, found.software, left_out=left_out)


def _frame(rows: Sequence[NcclTime]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "library": ["nccl"] * len(rows),
            "world_size": [row.world_size for row in rows],
            "size_bytes": [row.size_bytes for row in rows],
            "in_place": [row.in_place for row in rows],
            "seconds": [row.seconds for row in rows],
            "raw_seconds": [row.seconds for row in rows],
            "bus_bandwidth_Bps": [
                bus_bandwidth_Bps(row.size_bytes, row.world_size, row.seconds) for row in rows
            ],
        },
        schema_overrides={"in_place": pl.Boolean},
    ).with_columns(
        pl.lit(1).alias("concurrent"),
        (pl.int_range(pl.len()).over("size_bytes", "in_place")).alias("trial"),
    )
