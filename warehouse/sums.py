"""Checksums of a landed run, in the format of `sha256sum`, written when it lands."""

import hashlib
from pathlib import Path

from warehouse.durable import sync
from warehouse.records import BadInput

SUMS = "SHA256SUMS"


def seal(folder: Path) -> None:
    """Write the checksums of the folder's Parquet files."""
    lines = [f"{_sum(file)}  {file.name}\n" for file in sorted(folder.glob("*.parquet"))]
    (folder / SUMS).write_text("".join(lines))
    sync(folder / SUMS)


def verify(folder: Path) -> None:
    """Do nothing if the Parquet files are those that landed.

    A folder without checksums was made by other means and is taken as it is.

    Raises:
        BadInput: a file is missing, is another one, or came later.
    """
    try:
        text = (folder / SUMS).read_text(errors="replace")
    except FileNotFoundError:
        return
    expected = dict(line.split("  ", 1)[::-1] for line in text.split("\n") if "  " in line)
    there = {file.name for file in folder.glob("*.parquet")}
    if missing := sorted(set(expected) - there):
        raise BadInput(f"{missing[0]} is missing, which {SUMS} lists")
    if extra := sorted(there - set(expected)):
        raise BadInput(f"{extra[0]} came after the run had landed: {SUMS} does not list it")
    for name, digest in sorted(expected.items()):
        if _sum(folder / name) != digest:
            raise BadInput(
                f"{name} is not the file that landed: its SHA-256 is not the one in {SUMS}; copy "
                f"the run again, or run `sha256sum *.parquet > {SUMS}` if the change is meant"
            )


def _sum(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
