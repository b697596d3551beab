"""Checksums of a landed run, in the format of `sha256sum`, written when it lands."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from warehouse import limits
from warehouse.durable import sync
from warehouse.records import BadInput

SUMS = "SHA256SUMS"


def seal(folder: Path, *, durable: bool = True) -> None:
    """Write the checksums of the folder's Parquet files; they are on disk then if `durable`."""
    (folder / SUMS).write_text(_listed(_sums(folder)))
    if durable:
        sync(folder / SUMS)


def verify(folder: Path) -> str:
    """Check that the Parquet files are those that landed; return the SHA-256 of their checksums.

    That is the SHA-256 of the file that `seal` writes. A folder without checksums was made by
    other means and is taken as it is.

    Raises:
        BadInput: a file is missing, is another one, or came later.
    """
    found = _sums(folder)
    expected = _expected(folder)
    if expected is not None:
        if missing := sorted(set(expected) - set(found)):
            raise BadInput(f"{missing[0]} is missing, which {SUMS} lists")
        if extra := sorted(set(found) - set(expected)):
            raise BadInput(f"{extra[0]} came after the run had landed: {SUMS} does not list it")
        for name, digest in found.items():
            if expected[name] != digest:
                raise BadInput(
                    f"{name} is not the file that landed: its SHA-256 is not the one in {SUMS}; "
                    f"copy the run again, or run `sha256sum *.parquet > {SUMS}` if the change is "
                    "meant"
                )
    return hashlib.sha256(_listed(found).encode()).hexdigest()


def _expected(folder: Path) -> dict[str, str] | None:
    try:
        with (folder / SUMS).open("rb") as file:
            text = file.read(limits.DOCUMENT_BYTES + 1)
    except FileNotFoundError:
        return None
    if len(text) > limits.DOCUMENT_BYTES:
        raise BadInput(f"{SUMS} is longer than {limits.DOCUMENT_BYTES:,} bytes")
    lines = text.decode(errors="replace").split("\n")
    return dict(line.split("  ", 1)[::-1] for line in lines if "  " in line)


def _sums(folder: Path) -> dict[str, str]:
    return {file.name: _sum(file) for file in sorted(folder.glob("*.parquet"))}


def _listed(sums: Mapping[str, str]) -> str:
    return "".join(f"{digest}  {name}\n" for name, digest in sums.items())


def _sum(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
