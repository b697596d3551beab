"""Output of nccl-tests' all_reduce_perf → table `allreduce`.

Of an all-reduce of n ranks, bus is 2 (n − 1) / n of algorithm bandwidth, and that is size / time.
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from profilers.probe import Setting
from profilers.readers import nccl_log
from profilers.readers.contract import ImportedRun, ReaderOptions
from profilers.readers.nccl_log import NcclTime
from warehouse.records import BadInput

_ROUNDED_GBPS, _ROUNDED_TIME = 0.0051, 0.01
"""Bandwidths are printed with two decimals, times of a microsecond and more with two."""


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
        BadInput: the message names the line.
    """
    for row in measured:
        algorithm, bus = row.algorithm_GBps, row.bus_GBps
        if algorithm is None:
            continue
        expected, factor = row.size_bytes / row.seconds / 1e9, 2 - 2 / row.world_size
        if abs(algorithm - expected) > _ROUNDED_GBPS + _ROUNDED_TIME * expected:
            raise BadInput(
                f"{row.where}: {row.size_bytes} bytes in {row.seconds:g} s are {expected:.6g} "
                f"GB/s, but the algorithm bandwidth is {algorithm:.6g}; was the line altered?"
            )
        if bus is not None and abs(bus - algorithm * factor) > _ROUNDED_GBPS * (1 + factor):
            raise BadInput(
                f"{row.where}: bus bandwidth is {bus:.6g} GB/s, and {algorithm * factor:.6g} where "
                f"{row.world_size} ranks all-reduce; is it another collective, or was the list of "
                "ranks cut? Say how many with --world-size"
            )
