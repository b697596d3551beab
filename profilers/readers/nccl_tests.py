"""Output of nccl-tests' all_reduce_perf → table `allreduce`.

Of an all-reduce of n ranks, bus is 2 (n − 1) / n of algorithm bandwidth, and that is size / time.
All three are printed rounded, so they agree as far as their digits tell and no further.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from profilers.probe import Setting
from profilers.readers import nccl_log
from profilers.readers.contract import ImportedRun, ReaderOptions
from profilers.readers.nccl_log import SLACK, NcclTime
from warehouse.records import BadInput


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
    results = nccl_log.read(path, options.world_size)
    if not results.measured:
        raise BadInput(f"{path}: no row of an all-reduce; expected the text of all_reduce_perf")
    check_bandwidths(results.measured)
    if wrong := sum(row.wrong for row in results.measured):
        results.left_out["times of wrong results"] += wrong
    if wrong == len(results.measured):
        raise BadInput(f"{path}: all {wrong} results are wrong, so no time is worth anything")

    def setting(row: NcclTime) -> tuple[int, int, str, str]:
        return row.world_size, row.nodes or 0, row.kind, row.operation

    host = {"gpu": ", ".join(sorted(results.devices))} if results.devices else {}
    for (world_size, nodes, kind, operation), group in itertools.groupby(
        sorted(results.measured, key=setting), setting
    ):
        rows = list(group)
        right = [row for row in rows if not row.wrong]
        config: dict[str, Setting] = {
            "collective": "all_reduce",
            "world_size": world_size,
            "data_type": kind,
            "reduction": operation,
            "wrong_results": len(rows) - len(right),
            "nodes": nodes or None,
        }
        if right:
            left_out = dict(results.left_out)
            results.left_out.clear()
            tables = {"allreduce": _frame(right)}
            yield ImportedRun(tables, config, host, results.software, left_out=left_out)


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


def check_bandwidths(measured: Sequence[NcclTime]) -> None:
    """Refuse bandwidths that are not those of the sizes, times and ranks beside them.

    Raises:
        BadInput: the message names the line, and how many ranks would have such bandwidths.
    """
    by_ranks = sorted(measured, key=lambda row: row.world_size)
    for world_size, group in itertools.groupby(by_ranks, lambda row: row.world_size):
        ratios = [(row, *ratio) for row in group if (ratio := _ratio(row))]
        expected = 2 - 2 / world_size
        wrong = [row for row, low, high in ratios if not low <= expected <= high]
        if wrong:
            # The largest bandwidth has the most digits.
            row = max(wrong, key=lambda row: row.bus_GBps.value if row.bus_GBps else 0)
            assert row.bus_GBps and row.algorithm_GBps
            raise BadInput(
                f"{row.where}: bus / algorithm bandwidth is "
                f"{row.bus_GBps.value / row.algorithm_GBps.value:.6f}, but an all-reduce of "
                f"{world_size} ranks has {expected:.6f}; "
                + _ranks_told(max(low for _, low, _ in ratios), min(high for *_, high in ratios))
            )
    for row in measured:
        if row.algorithm_GBps and not row.is_size_over_time:
            raise BadInput(
                f"{row.where}: {row.size_bytes} bytes in {row.seconds:g} s are "
                f"{row.size_bytes / row.seconds / 1e9:.6g} GB/s, but the algorithm bandwidth is "
                f"{row.algorithm_GBps.value:.6g}; is the time that of the CPU alone (-C), or was "
                "the line altered?"
            )


def _ratio(row: NcclTime) -> tuple[float, float] | None:
    """Return between which values bus / algorithm bandwidth is; None where it tells nothing."""
    if row.algorithm_GBps is None or row.bus_GBps is None or row.algorithm_GBps.low <= 0:
        return None
    low = row.bus_GBps.low / row.algorithm_GBps.high
    return low * (1 - SLACK), row.bus_GBps.high / row.algorithm_GBps.low * (1 + SLACK)


def _ranks_told(low: float, high: float) -> str:
    """Say which numbers of ranks n have 2 (n − 1) / n between these ratios."""
    fewest = max(2, math.ceil(2 / (2 - low))) if low < 2 else math.inf
    most = math.floor(2 / (2 - high)) if high < 2 else math.inf
    if fewest > most or fewest == math.inf:
        return "no number of ranks gives that: is it another collective, or was a line altered?"
    return (
        "is it another collective, or was the list of ranks cut? Such bandwidths are those of "
        f"{fewest} {'ranks or more' if most == math.inf else f'to {most} ranks'}: say how many "
        "with --world-size"
    )
