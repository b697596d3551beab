"""Formats that `stepcast import` reads, by name."""

import difflib
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow as pa

from profilers.readers import csv_table, iperf3, kineto, nccl_tests, pcap
from profilers.readers.contract import ImportedRun, ReaderOptions
from warehouse.records import BadInput

_NOT_SUCH_A_FILE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    pa.ArrowException,
    pl.exceptions.PolarsError,
    zlib.error,
)
"""What bytes that no reader thought of may raise in one."""


@dataclass(frozen=True)
class Format:
    """A reader: yields the runs of one file. `options` are the fields of `Options` it heeds."""

    reader: Callable[[Path, ReaderOptions], Iterator[ImportedRun]]
    options: tuple[str, ...] = ()

    def read(self, path: Path, options: ReaderOptions) -> Iterator[ImportedRun]:
        """Yield the runs of one file.

        Readers check what they take. This is the last line: a reader that trips over bytes all
        the same is no reason for a traceback. Tests and the fuzzer call `reader`, so that they
        see it.

        Raises:
            BadInput: the file cannot be read, or is no such file.
        """
        try:
            yield from self.reader(path, options)
        except _NOT_SUCH_A_FILE as error:
            what = f"{type(error).__name__}: {error}"
            raise BadInput(
                f"{path}: the reader gave up ({what:.200}); is the file whole, and of this format? "
                "If so, please report it"
            ) from error


FORMATS: Mapping[str, Format] = {
    "csv": Format(csv_table.read, ("mapping",)),
    "iperf3": Format(iperf3.read, ("worker",)),
    "kineto": Format(kineto.read, ("worker",)),
    "nccl-tests": Format(nccl_tests.read, ("world_size", "worker")),
    "pcap": Format(pcap.read),
}


def find_format(name: str, options: ReaderOptions) -> Format:
    """Return a format by name.

    Raises:
        BadInput: there is none of that name, or it has no use for one of the options given.
    """
    if name not in FORMATS:
        near = difflib.get_close_matches(name, FORMATS, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise BadInput(f"unknown format {name!r}; {meant}The formats are {', '.join(FORMATS)}")
    for option in ReaderOptions.model_fields:
        if getattr(options, option) is not None and option not in FORMATS[name].options:
            users = [other for other, known in FORMATS.items() if option in known.options]
            raise BadInput(
                f"--{option.replace('_', '-')} is for {', '.join(users)}; {name} has no use for it"
            )
    return FORMATS[name]
