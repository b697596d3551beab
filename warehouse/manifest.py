"""The manifest of a run in S3: which files make it whole, of what size and SHA-256."""

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import Annotated

from pydantic import AwareDatetime, ConfigDict, Field, ValidationError

from warehouse import limits
from warehouse.copying import RECEIVED, Bounds
from warehouse.foreign import check_file, check_name
from warehouse.records import BadInput, Record


class _Foreign(Record):
    # A complaint about each of a million fields would take more memory than they do.
    model_config = ConfigDict(frozen=True, extra="ignore")


class ManifestFile(_Foreign):
    """A file of a run: its name within the run's folder, and what it holds."""

    name: Annotated[str, Field(max_length=4096)]
    size_bytes: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Manifest(_Foreign):
    """What makes a run be there: all of its files."""

    run_id: str
    pushed_at: AwareDatetime
    files: Annotated[tuple[ManifestFile, ...], Field(max_length=limits.RUN_FILES, fail_fast=True)]


def manifest_of(folder: Path) -> Manifest:
    """Return the manifest of a landed run; that it was received from elsewhere is not in it.

    Raises:
        BadInput: it holds what is no plain file, or more than `limits` says of a run, or a file
            has a name that `warehouse.foreign` refuses.
    """
    files = tuple(_files(folder))
    manifest = Manifest.model_construct(
        run_id=folder.name, pushed_at=datetime.now(UTC), files=files
    )
    _check(manifest)
    return manifest


def read_manifest(text: bytes, run_id: str) -> Manifest:
    """Return the manifest of a run that another site wrote.

    Raises:
        BadInput: it is none, is of another run, or names what cannot be the files of a run.
    """
    if len(text) > limits.MANIFEST_BYTES:
        raise BadInput(f"its manifest is longer than {limits.MANIFEST_BYTES / 2**20:g} MiB")
    try:
        manifest = Manifest.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise BadInput(f"its manifest is wrong: {where}: {first['msg']}") from error
    if manifest.run_id != run_id:
        raise BadInput(f"its manifest is of another run, {manifest.run_id!r:.200}")
    _check(manifest)
    return manifest


def _check(manifest: Manifest) -> None:
    """Refuse files that cannot be those of a run: by number, size or name.

    Raises:
        BadInput: that.
    """
    bounds, seen, above = Bounds(), set[str](), set[str]()
    bounds.count(len(manifest.files))
    for one in manifest.files:
        bounds.add(one.size_bytes)
        parts = one.name.split("/")
        if len(parts) > limits.DEPTH:
            raise BadInput(f"folders inside each other deeper than {limits.DEPTH}")
        for part in parts:
            check_name(part, f"in file {one.name[:200]!r},")
        if one.name in seen or one.name == RECEIVED:
            raise BadInput(f"its manifest must not name {one.name}, or not twice")
        seen.add(one.name)
        above.update(accumulate(parts[:-1], "{}/{}".format))
    if both := sorted(seen & above):
        raise BadInput(f"its manifest has {both[0]} both as a file and as a folder")


def _files(folder: Path) -> Iterator[ManifestFile]:
    """Yield the plain files of a landed run, with their sums."""
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        if path.is_dir() and not path.is_symlink():
            continue
        check_file(path.name, mode)
        if (name := path.relative_to(folder).as_posix()) != RECEIVED:
            with path.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
                size_bytes = file.tell()
            yield ManifestFile(name=name, size_bytes=size_bytes, sha256=sha256)
