"""A landing prefix in S3.

The files of a run are objects `<prefix>/runs/<run_id>/<file>`. After them comes the manifest
`<prefix>/landed/<run_id>.json`, with the name, size and SHA-256 of each file. S3 puts one object
whole or not at all, so a run is there once its manifest is.

boto3 does it, and neither pyarrow nor s3fs: docs/sites.md says what these cannot do.
"""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

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

from warehouse import limits
from warehouse.durable import sync
from warehouse.manifest import Manifest, ManifestFile, manifest_of, read_manifest
from warehouse.prefixes import Unreachable
from warehouse.records import BadInput, MissingTool, StepcastError
from warehouse.tables import one_line

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
        if (found := _PLACE.fullmatch(place)) is None:
            raise BadInput(
                f"{place!r:.200} is no place in S3; expected s3://bucket/name, of letters, digits, "
                ". _ = + -"
            )
        return cls(found["bucket"], found["path"].removeprefix("/"))

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
                for one in page.get("Contents", ()):
                    if one["Key"].endswith(_JSON):
                        yield one["Key"].removeprefix(start).removesuffix(_JSON)

    def edition(self, run_id: str) -> str:
        """Return the entity tag of the manifest, which says when it was pushed."""
        key = self._key(_MANIFESTS, run_id + _JSON)
        with self._told(f"look at run {run_id}"):
            return str(self._client.head_object(Bucket=self._bucket, Key=key)["ETag"])

    def fetch(self, run_id: str, target: Path) -> None:
        """Bring the files that the manifest names, each of its size and SHA-256."""
        manifest = self._manifest(run_id)
        target.mkdir()
        for one in manifest.files:
            path = target / one.name
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._told(f"read {one.name} of run {run_id}"):
                self._fetch(self._key(_FILES, f"{run_id}/{one.name}"), one, path)
        for folder in {path.parent for path in target.rglob("*")}:
            sync(folder)

    def put(self, folder: Path) -> bool:
        """Upload the files of a run, and then its manifest."""
        run_id = folder.name
        manifest = manifest_of(folder)
        for one in manifest.files:
            key = self._key(_FILES, f"{run_id}/{one.name}")
            with (folder / one.name).open("rb") as content, self._told(f"push run {run_id}"):
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

    def _fetch(self, key: str, one: ManifestFile, target: Path) -> None:
        answer = self._get(key, one.name)
        if answer["ContentLength"] != one.size_bytes:
            raise BadInput(
                f"{one.name} has {answer['ContentLength']:,} bytes, the manifest says "
                f"{one.size_bytes:,}"
            )
        digest = hashlib.sha256()
        with target.open("xb") as writing:
            for chunk in answer["Body"].iter_chunks(_CHUNK_BYTES):
                digest.update(chunk)
                writing.write(chunk)
        if digest.hexdigest() != one.sha256:
            raise BadInput(f"{one.name} is not the file that was pushed: its SHA-256 is another")
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
            said = f"{self.name} does not let us {what}: {one_line(error)}"
            if error.response["Error"]["Code"] == "NoSuchBucket":
                raise BadInput(f"{said}; make the bucket, or correct its name") from error
            raise StepcastError(said) from error
        except BotoCoreError as error:
            raise Unreachable(
                f"{self.name} did not answer when asked to {what}: {one_line(error)}; try again"
            ) from error
