"""What logs of ranks say that training took: each sample of it, and those that parameters saw."""

import re
from collections.abc import Iterable
from pathlib import Path

from pydantic import TypeAdapter

from pipelines.runtime.checkpoints import is_log
from warehouse.durable_files import read_whole_records
from warehouse.records import Record

_BEGIN = re.compile(r"\[\d+, \[")
_LINE = TypeAdapter(tuple[int, tuple[int, ...]])


class SampleRecord(Record):
    """The samples that a rank took for one iteration (counted from 0) of one incarnation."""

    incarnation: int
    rank: int
    step: int
    indices: tuple[int, ...]


def read_sample_logs(folder: Path) -> list[SampleRecord]:
    """Return what all ranks took, but for lines that are not whole."""
    rows: list[SampleRecord] = []
    for path in sorted(file for file in folder.iterdir() if is_log(file.name)):
        _, incarnation, rank = path.stem.split("-")
        rows += [
            SampleRecord(incarnation=int(incarnation), rank=int(rank), step=step, indices=indices)
            for step, indices in read_whole_records(path, _BEGIN, _LINE.validate_python)
        ]
    return rows


def consumed_samples(rows: Iterable[SampleRecord]) -> dict[int, list[int]]:
    """Return the samples of each iteration that the parameters have seen, in the ranks' order.

    What an incarnation took after the checkpoint that the next one went on from is not among them.
    """
    rows = list(rows)
    first: dict[int, int] = {}
    for row in rows:
        first[row.incarnation] = min(first.get(row.incarnation, row.step), row.step)
    steps: dict[int, list[int]] = {}
    for row in sorted(rows, key=lambda row: (row.step, row.incarnation, row.rank)):
        if all(row.step < start for later, start in first.items() if later > row.incarnation):
            steps.setdefault(row.step, []).extend(row.indices)
    return steps
