"""A landing prefix in S3, and the manifest that says which files make a run whole.

The files of a run are objects `<prefix>/runs/<run_id>/<file>`. After them comes the manifest
`<prefix>/landed/<run_id>.json`, with the name, size and SHA-256 of each file. S3 puts one object
whole or not at all, so a run is there once its manifest is.

boto3 does it, and neither pyarrow nor s3fs: docs/sites.md says what these cannot do.
"""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
)
from pydantic import AwareDatetime, ConfigDict, Field, ValidationError

from warehouse import limits
from warehouse.durable_files import sync
from warehouse.landed_files import check_file, check_name
from warehouse.records import BadInput, MissingTool, PrefixUnreachable, Record, StepcastError
from warehouse.tables import one_line
from warehouse.transfer import RECEIVED, Bounds

# The manifest of a run in S3: which files make it whole, of what size and SHA-256.


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
            has a name that `warehouse.landed_files` refuses.
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
    for file in manifest.files:
        bounds.add(file.size_bytes)
        parts = file.name.split("/")
        if len(parts) > limits.DEPTH:
            raise BadInput(f"folders inside each other deeper than {limits.DEPTH}")
        for part in parts:
            check_name(part, f"in file {file.name[:200]!r},")
        if file.name in seen or file.name == RECEIVED:
            raise BadInput(f"its manifest must not name {file.name}, or not twice")
        seen.add(file.name)
        above.update(accumulate(parts[:-1], "{}/{}".format))
    if clashing := sorted(seen & above):
        raise BadInput(f"its manifest has {clashing[0]} both as a file and as a folder")


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


_PLACE = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?P<path>(/[\w.=+-]+)*)/?")
_MANIFESTS, _FILES, _JSON = "landed", "runs", ".json"
_CHUNK_BYTES = 1 << 20
PATIENCE = Config(
    connect_timeout=10, read_timeout=60, retries={"mode": "standard", "total_max_attempts": 4}
)
# Threads would disturb what this host may be measuring.
_ONE_AT_A_TIME = TransferConfig(use_threads=False)
_GONE = {"NoSuchKey", "404", "NotFound"}
_NO_CREDENTIALS = (NoCredentialsError, PartialCredentialsError, ProfileNotFound)


class BucketPrefix:
    """A landing prefix in S3."""

    def __init__(self, bucket: str, path: str) -> None:
        self._bucket = bucket
        self._path = path

    @classmethod
    def of(cls, place: str) -> "BucketPrefix":
        """Return the prefix s3://bucket/name.

        Raises:
            BadInput: it is no such place.
        """
        if (match := _PLACE.fullmatch(place)) is None:
            raise BadInput(
                f"{place!r:.200} is no place in S3; expected s3://bucket/name, of letters, digits, "
                ". _ = + -"
            )
        return cls(match["bucket"], match["path"].removeprefix("/"))

    @property
    def name(self) -> str:
        """The place as people write it."""
        return f"s3://{self._bucket}/{self._path}"

    def runs(self) -> Iterator[str]:
        """Yield the runs that have a manifest."""
        start = self._key(_MANIFESTS, "")
        with self._told("list it"):
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket, Prefix=start):
                for item in page.get("Contents", ()):
                    if item["Key"].endswith(_JSON):
                        yield item["Key"].removeprefix(start).removesuffix(_JSON)

    def edition(self, run_id: str) -> str:
        """Return the entity tag of the manifest, which says when it was pushed."""
        key = self._key(_MANIFESTS, run_id + _JSON)
        with self._told(f"look at run {run_id}"):
            return str(self._client.head_object(Bucket=self._bucket, Key=key)["ETag"])

    def fetch(self, run_id: str, target: Path) -> None:
        """Bring the files that the manifest names, each of its size and SHA-256."""
        manifest = self._manifest(run_id)
        target.mkdir()
        for file in manifest.files:
            path = target / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._told(f"read {file.name} of run {run_id}"):
                self._fetch(self._key(_FILES, f"{run_id}/{file.name}"), file, path)
        for folder in {path.parent for path in target.rglob("*")}:
            sync(folder)

    def put(self, folder: Path) -> bool:
        """Upload the files of a run, and then its manifest."""
        run_id = folder.name
        manifest = manifest_of(folder)
        for file in manifest.files:
            key = self._key(_FILES, f"{run_id}/{file.name}")
            with (folder / file.name).open("rb") as content, self._told(f"push run {run_id}"):
                self._client.upload_fileobj(content, self._bucket, key, Config=_ONE_AT_A_TIME)
        with self._told(f"push run {run_id}"):
            self._client.put_object(
                Bucket=self._bucket,
                Key=self._key(_MANIFESTS, run_id + _JSON),
                Body=manifest.canonical_json().encode(),
                ContentType="application/json",
            )
        return True

    @cached_property
    def _client(self) -> Any:
        return boto3.client("s3", config=PATIENCE)

    def _key(self, kind: str, name: str) -> str:
        return "/".join(filter(None, (self._path, kind))) + "/" + name

    def _manifest(self, run_id: str) -> Manifest:
        with self._told(f"look at run {run_id}"):
            answer = self._get(self._key(_MANIFESTS, run_id + _JSON), "its manifest")
            text = answer["Body"].read(limits.MANIFEST_BYTES + 1)
        return read_manifest(text, run_id)

    def _fetch(self, key: str, file: ManifestFile, target: Path) -> None:
        answer = self._get(key, file.name)
        if answer["ContentLength"] != file.size_bytes:
            raise BadInput(
                f"{file.name} has {answer['ContentLength']:,} bytes, the manifest says "
                f"{file.size_bytes:,}"
            )
        digest = hashlib.sha256()
        with target.open("xb") as writing:
            for chunk in answer["Body"].iter_chunks(_CHUNK_BYTES):
                digest.update(chunk)
                writing.write(chunk)
        if digest.hexdigest() != file.sha256:
            raise BadInput(f"{file.name} is not the file that was pushed: its SHA-256 is another")
        sync(target)

    def _get(self, key: str, what: str) -> Any:
        try:
            return self._client.get_object(Bucket=self._bucket, Key=key)
        except ClientError as error:
            if error.response["Error"]["Code"] in _GONE:
                raise BadInput(f"{what} is missing in {self.name}") from error
            raise

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Say errors of S3 in our words."""
        try:
            yield
        except _NO_CREDENTIALS as error:
            raise MissingTool(
                f"no AWS credentials for {self.name}: {one_line(error)}; run `aws configure`, or "
                "set AWS_PROFILE"
            ) from error
        except ClientError as error:
            message = f"{self.name} does not let us {what}: {one_line(error)}"
            if error.response["Error"]["Code"] == "NoSuchBucket":
                raise BadInput(f"{message}; make the bucket, or correct its name") from error
            raise StepcastError(message) from error
        except BotoCoreError as error:
            raise PrefixUnreachable(
                f"{self.name} did not answer when asked to {what}: {one_line(error)}; try again"
            ) from error
