"""Output of nccl-tests' all_reduce_perf (text, or JSON of NVIDIA's) → table `allreduce`."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import polars as pl

from profilers.probe import Setting
from profilers.readers import nccl_log
from profilers.readers.contract import ImportedRun, MemoryCounter, ReaderOptions, open_text
from profilers.readers.json_stream import convert_value, documents
from profilers.readers.nccl_measured import (
    CPU_TIME,
    ZERO_BYTES,
    NcclResults,
    NcclTime,
    RoundedNumber,
    check_bandwidths,
    check_collective,
    check_row,
    checked_time,
    nccl_version,
)
from warehouse.records import BadInput

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
        is_json = file.read(_HEAD_CHARACTERS).lstrip().startswith("{")
    results = (_read_json if is_json else nccl_log.read)(path, options.world_size)
    if not results.measured:
        raise BadInput(f"{path}: no row of an all-reduce; expected output of all_reduce_perf")
    check_bandwidths(results.measured)
    if wrong := sum(row.wrong for row in results.measured):
        results.left_out["times of wrong results"] += wrong
    if wrong == len(results.measured):
        raise BadInput(f"{path}: all {wrong} results are wrong, so no time is worth anything")

    def setting(row: NcclTime) -> tuple[int, str, str]:
        return row.world_size, row.kind, row.operation

    host = {"gpu": ", ".join(sorted(results.devices))} if results.devices else {}
    for (world_size, kind, operation), group in itertools.groupby(
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


# JSON of NVIDIA's nccl-tests (`--output_file`): src/util.cu there.


_EXPONENT = -6
"""Of the last digit of times and bandwidths."""
_US = 1e-6

_Count = Annotated[int, msgspec.Meta(ge=1, le=10**6)]
_Size = Annotated[int, msgspec.Meta(ge=0, lt=10**18)]
_Number = float | Literal["nan"] | None


class _Device(msgspec.Struct):
    group: int
    device_info: str


class _Config(msgspec.Struct):
    nthreads: _Count
    ngpus: _Count
    devices: Annotated[list[_Device], msgspec.Meta(min_length=1)]


class _Timed(msgspec.Struct):
    time: float | None = None
    cpu_time: float | None = None
    alg_bw: _Number = None
    bus_bw: _Number = None
    nwrong: _Number = None


class _Result(msgspec.Struct):
    size: _Size
    type: str
    redop: str
    count: _Size | None = None
    root: int | str | None = None
    out_of_place: _Timed | None = None
    in_place: _Timed | None = None


class _Report(msgspec.Struct):
    args: Annotated[list[str | None], msgspec.Meta(min_length=1)]
    nccl_version: Annotated[int, msgspec.Meta(ge=0, le=10**9)]
    config: _Config
    results: list[_Result]


def _read_json(path: Path, world_size: int | None) -> NcclResults:
    """Return what a file of one or several JSON values says.

    `world_size` overrules the ranks that the file gives.

    Raises:
        BadInput: another collective, values of another kind, or times of the CPU.
    """
    results, kept = NcclResults(), MemoryCounter(path)
    for value, where in documents(path):
        report = convert_value(value, _Report, where)
        for row in _times(where, report, world_size, results):
            results.add(row, kept)
    return results


def _times(
    where: str, report: _Report, world_size: int | None, results: NcclResults
) -> Iterator[NcclTime]:
    check_collective(where, Path(report.args[0] or "").name)
    config = report.config
    group = min(device.group for device in config.devices)
    # One device is listed per process, whatever number it drives.
    processes = sum(device.group == group for device in config.devices)
    ranks = world_size or processes * config.nthreads * config.ngpus
    results.devices |= {device.device_info for device in config.devices}
    results.software["nccl"] = nccl_version(report.nccl_version)
    for result in report.results:
        at = f"{where}, size {result.size}"
        root = None if result.root is None else f"{result.root}"
        check_row(at, result.size, result.count, result.type, result.redop, root)
        for place, timed in (("out", result.out_of_place), ("in", result.in_place)):
            if timed is None:
                continue
            if result.size == 0:
                results.left_out[ZERO_BYTES] += 1
                continue
            if timed.cpu_time is not None:
                raise BadInput(f"{at}: {CPU_TIME}")
            yield NcclTime(
                at,
                ranks,
                result.type,
                result.redop,
                result.size,
                place == "in",
                checked_time(at, _printed(timed.time), _US),
                _US,
                _printed(timed.alg_bw),
                _printed(timed.bus_bw),
                wrong=bool(timed.nwrong),
            )


def _printed(number: _Number) -> RoundedNumber | None:
    return RoundedNumber.rounded(number, _EXPONENT) if isinstance(number, float | int) else None
