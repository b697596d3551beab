"""Formats that `stepcast import` reads, by name. A new one is a reader and a line in `FORMATS`."""

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from profilers.readers import (
    chrome_timeline,
    csv_table,
    execution_trace,
    iperf3,
    kineto,
    nccl_tests,
    pcap,
    run_metadata_file,
)
from profilers.readers.imported import Imported, Options
from warehouse.records import BadInput


@dataclass(frozen=True)
class Format:
    """A reader: yields the runs of one file. `options` are the fields of `Options` it heeds."""

    read: Callable[[Path, Options], Iterator[Imported]]
    options: tuple[str, ...] = ()


FORMATS: Mapping[str, Format] = {
    "chrome-timeline": Format(chrome_timeline.read),
    "csv": Format(csv_table.read, ("mapping",)),
    "execution-trace": Format(execution_trace.read),
    "iperf3": Format(iperf3.read),
    "kineto": Format(kineto.read),
    "nccl-tests": Format(nccl_tests.read, ("world_size",)),
    "pcap": Format(pcap.read),
    "runmetadata": Format(run_metadata_file.read),
}


def named(name: str, options: Options) -> Format:
    """Return a format by name.

    Raises:
        BadInput: there is none of that name, or it has no use for one of the options given.
    """
    if name not in FORMATS:
        near = difflib.get_close_matches(name, FORMATS, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise BadInput(f"unknown format {name!r}; {meant}The formats are {', '.join(FORMATS)}")
    for option in (field.name for field in fields(options)):
        if getattr(options, option) is not None and option not in FORMATS[name].options:
            users = [other for other, one in FORMATS.items() if option in one.options]
            raise BadInput(
                f"--{option.replace('_', '-')} is for {', '.join(users)}; {name} has no use for it"
            )
    return FORMATS[name]
