"""Output of nccl-tests' all_reduce_perf (text or JSON, any version) → table `allreduce`."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from profilers.readers import nccl_log
from profilers.readers.imported import Imported, Options, read_text
from profilers.readers.nccl_measured import Measured, Printed, check_bandwidths
from profilers.result import Setting
from warehouse.records import BadInput

_JSON_EXPONENT = -6
"""Of the last digit of times and bandwidths in JSON."""


def bus_bandwidth_Bps(size_bytes: float, world_size: int, seconds: float) -> float:
    """Return 2 s (n − 1) / (n t), what each link carries in a ring (Srift, section 4)."""
    return 2 * size_bytes * (world_size - 1) / (world_size * seconds)


def read(path: Path, options: Options) -> Iterator[Imported]:
    """Yield one run for each world size, data type and operation in the log.

    Times whose results were wrong are left out and counted in config `wrong_results`.

    Raises:
        BadInput: no all-reduce in it, an unreadable row, or a world size that is not known or
            contradicts the printed bus bandwidths.
    """
    text = read_text(path)
    if text.lstrip().startswith("{"):
        measured, host, software = _from_json(path, text, options.world_size)
    else:
        measured, host, software = nccl_log.from_text(path, text, options.world_size)
    if not measured:
        raise BadInput(f"{path}: no row of an all-reduce; expected output of all_reduce_perf")
    check_bandwidths(measured)

    def setting(one: Measured) -> tuple[int, str, str]:
        return one.world_size, one.kind, one.operation

    for (world_size, kind, operation), group in itertools.groupby(
        sorted(measured, key=setting), setting
    ):
        rows = list(group)
        config: dict[str, Setting] = {
            "collective": "all_reduce",
            "world_size": world_size,
            "data_type": kind,
            "reduction": operation,
            "wrong_results": sum(row.wrong for row in rows),
        }
        frame = _frame([row for row in rows if not row.wrong])
        yield Imported({"allreduce": frame}, config, host, software)


def _frame(rows: Sequence[Measured]) -> pl.DataFrame:
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


def _from_json(
    path: Path, text: str, world_size: int | None
) -> tuple[list[Measured], Mapping[str, str], Mapping[str, str]]:
    report = _parsed(path, text)
    try:
        config, results = report["config"], report["results"]
        nccl_log.check_collective(str(path), Path(report["args"][0]).name)
        group = min(device["group"] for device in config["devices"])
        # One device is listed per process, whatever number it drives.
        processes = sum(device["group"] == group for device in config["devices"])
        ranks = world_size or processes * config["nthreads"] * config["ngpus"]
        devices = {device["device_info"] for device in config["devices"]}
        found = [
            one
            for result in results
            for place in ("out_of_place", "in_place")
            if result.get(place) and result["size"]
            for one in [_json_row(str(path), result, place, ranks)]
        ]
        software = {"nccl": nccl_log.version(int(report["nccl_version"]))}
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise BadInput(
            f"{path}: key {error} is missing or of another kind; expected the JSON that "
            "all_reduce_perf writes with --output_file"
        ) from None
    return found, {"gpu": ", ".join(sorted(devices))}, software


def _json_row(where: str, result: Any, place: str, world_size: int) -> Measured:
    timed = result[place]
    at = f"{where}, size {result['size']}"
    if "cpu_time" in timed:
        raise BadInput(f"{at}: {nccl_log.CPU_TIME}")
    return Measured(
        at,
        world_size,
        result["type"],
        result["redop"],
        result["size"],
        place == "in_place",
        nccl_log.positive(at, Printed.rounded(timed["time"], _JSON_EXPONENT), 1e-6),
        1e-6,
        Printed.rounded(timed["alg_bw"], _JSON_EXPONENT),
        Printed.rounded(timed["bus_bw"], _JSON_EXPONENT),
        wrong=bool(timed.get("nwrong")),
    )


def _parsed(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInput(
            f"{path} line {error.lineno}: not JSON ({error.msg}); is it whole?"
        ) from None
