"""A landing prefix in S3: manifests that lie are refused, errors are told in our words."""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config

from warehouse import bucket, limits
from warehouse.landing import QUARANTINE, REASON
from warehouse.records import BadInput, MissingTool, PrefixUnreachable, StepcastError
from warehouse.sites import prefix_of, push, receive

if TYPE_CHECKING:
    from tests.warehouse.conftest import Maker

Change = Callable[[dict[str, Any]], object]


class Lab:
    """A bucket with the whole run `r1` and, beside it, `r0` to be forged from it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.place = f"s3://{name}/lab"
        self._s3 = boto3.client("s3")

    def put(self, key: str, text: bytes) -> None:
        self._s3.put_object(Bucket=self.name, Key=f"lab/{key}", Body=text)

    def get(self, key: str) -> bytes:
        answer = self._s3.get_object(Bucket=self.name, Key=f"lab/{key}")
        return bytes(answer["Body"].read())

    def keys(self) -> set[str]:
        listed = self._s3.list_objects_v2(Bucket=self.name)
        return {entry["Key"] for entry in listed.get("Contents", ())}

    def forge(self, change: Change) -> None:
        """Put a run r0 there, of the files of r1, whose manifest has been changed."""
        manifest = json.loads(self.get("landed/r1.json"))
        for file in manifest["files"]:
            self.put(f"runs/r0/{file['name']}", self.get(f"runs/r1/{file['name']}"))
        manifest["run_id"] = "r0"
        change(manifest)
        self.put("landed/r0.json", json.dumps(manifest).encode())


@pytest.fixture
def lab(s3: str, make: "Maker", tmp_path: Path) -> Lab:
    site = type(make)(tmp_path / "site")
    folder = site.profile("r1", site.scenario())
    (folder / "artefacts").mkdir()
    (folder / "artefacts" / "trace.pb").write_bytes(b"bytes")
    bucket_lab = Lab(s3)
    push(site.home / "landing", prefix_of(bucket_lab.place))
    return bucket_lab


def test_a_run_is_files_and_then_a_manifest(lab: Lab, make: "Maker", tmp_path: Path) -> None:
    manifest = json.loads(lab.get("landed/r1.json"))
    site = tmp_path / "site" / "landing" / "r1"
    assert {file["name"]: (file["size_bytes"], file["sha256"]) for file in manifest["files"]} == {
        str(path.relative_to(site)): (
            path.stat().st_size,
            sha256(path.read_bytes()).hexdigest(),
        )
        for path in site.rglob("*")
        if path.is_file()
    }
    assert lab.keys() == {
        "lab/landed/r1.json",
        "lab/runs/r1/SHA256SUMS",
        "lab/runs/r1/artefacts/trace.pb",
        "lab/runs/r1/run.parquet",
        "lab/runs/r1/scenario.parquet",
        "lab/runs/r1/timing.parquet",
    }


def named(name: object) -> Change:
    """Return what names the first file otherwise."""
    return lambda manifest: manifest["files"][0].update(name=name)


def again(**fields: object) -> Change:
    """Return what names the first file a second time, changed."""
    return lambda manifest: manifest["files"].append({**manifest["files"][0], **fields})


def first(**fields: object) -> Change:
    """Return what says something else of the first file."""
    return lambda manifest: manifest["files"][0].update(fields)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (named("../r1/x"), r"in file '../r1/x', '..' cannot name a folder"),
        (named("/etc/passwd"), "'' cannot name a folder"),
        (named(".hidden"), "cannot name a folder"),
        (named("/".join("a" * 65)), "folders inside each other deeper than 64"),
        (named(7), "its manifest is wrong: files.0.name: Input should be a valid string"),
        (named("other.parquet"), "other.parquet is missing"),
        (again(), "its manifest must not name SHA256SUMS, or not twice"),
        (again(name="artefacts/trace.pb/x/y"), "has artefacts/trace.pb both as a file and as"),
        (first(size_bytes=1), "bytes, the manifest says 1"),
        (first(size_bytes=1 << 36), "its files hold more than 64 GiB"),
        (first(sha256="0" * 64), "is not the file that was pushed: its SHA-256 is another"),
        (lambda manifest: manifest.update(run_id="r1"), "its manifest is of another run, 'r1'"),
        (
            lambda manifest: manifest.update(files=manifest["files"] * 2001),
            "Tuple should have at most 10000 items",
        ),
    ],
)
def test_a_manifest_that_lies_is_refused_and_the_other_run_comes(
    change: Change, said: str, lab: Lab, make: "Maker"
) -> None:
    lab.forge(change)
    landing = make.home / "landing"
    report = receive(prefix_of(lab.place), landing)
    assert report.copied == ("r1",)
    (bad,) = report.refused
    assert said in bad.reason
    assert bad.folder == landing / QUARANTINE / "r0"
    assert {path.name for path in bad.folder.iterdir()} == {REASON, "received.json"}
    assert {path.name for path in landing.iterdir()} == {"r1", QUARANTINE}
    assert receive(prefix_of(lab.place), landing).known_bad == ("r0",)
    assert make.warehouse.load().loaded == ("r1",)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"[]", b"null", b'"' + b"[" * 10_000])
def test_a_manifest_that_is_none_is_refused(text: bytes, lab: Lab, make: "Maker") -> None:
    lab.put("landed/r0.json", text)
    report = receive(prefix_of(lab.place), make.home / "landing")
    assert report.copied == ("r1",)
    assert [run.reason.startswith("its manifest is wrong: ") for run in report.refused] == [True]
    assert "\n" not in report.refused[0].reason


def test_a_manifest_without_end_is_not_read_to_its_end(
    lab: Lab, make: "Maker", monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.put("landed/r0.json", b" " * 100_000)
    monkeypatch.setattr(limits, "MANIFEST_BYTES", 1 << 16)
    report = receive(prefix_of(lab.place), make.home / "landing")
    assert report.copied == ("r1",)
    assert report.refused[0].reason.startswith("its manifest is longer than 0.0625 MiB")


def test_what_cannot_be_named_is_not_pushed(s3: str, make: "Maker") -> None:
    folder = make.profile("r1", make.scenario())
    (folder / "a b").write_bytes(b"")
    other = make.profile("r2", make.scenario(), repeat=2)
    (other / "link").symlink_to("/etc/passwd")
    report = push(make.home / "landing", prefix_of(f"s3://{s3}"))
    assert report.pushed == ()
    first, second = report.refused
    assert "in file 'a b', 'a b' cannot name a folder" in first
    assert "link is a symbolic link" in second
    assert Lab(s3).keys() == set()


def test_a_bucket_may_be_the_whole_prefix(s3: str, make: "Maker", tmp_path: Path) -> None:
    make.profile("r1", make.scenario())
    prefix = prefix_of(f"s3://{s3}/")
    assert push(make.home / "landing", prefix).pushed == ("r1",)
    assert {key.partition("/")[0] for key in Lab(s3).keys()} == {"landed", "runs"}
    assert receive(prefix, tmp_path / "landing").copied == ("r1",)


def test_more_runs_than_s3_lists_at_once(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "2")
    lab = Lab(s3)
    for number in range(5):
        lab.put(f"landed/r{number}.json", b"")
    assert len(lab.keys()) == 2
    assert list(prefix_of(lab.place).runs()) == [f"r{number}" for number in range(5)]


def test_no_bucket_is_told(s3: str) -> None:
    with pytest.raises(
        BadInput, match=r"does not let us list it: .*NoSuchBucket.*correct its name"
    ):
        list(prefix_of("s3://no-such-bucket/lab").runs())


def test_no_credentials_are_told(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(MissingTool, match=r"no AWS credentials for s3://.*; run `aws configure`"):
        list(prefix_of(lab.place).runs())
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(MissingTool, match=r"no AWS credentials for s3://.*nobody"):
        list(prefix_of(lab.place).runs())


def test_a_profile_is_looked_up_where_boto3_does(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    file = tmp_path / "credentials"
    file.write_text("[lab]\naws_access_key_id = a\naws_secret_access_key = b\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.setenv("AWS_PROFILE", "lab")
    assert list(prefix_of(lab.place).runs()) == ["r1"]


def test_a_place_that_does_not_answer_is_told(
    lab: Lab, make: "Maker", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket, "PATIENCE", Config(retries={"total_max_attempts": 1}))
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    with pytest.raises(
        PrefixUnreachable, match=r"did not answer when asked to list it: .*; try again"
    ):
        receive(prefix_of(lab.place), make.home / "landing")


def test_what_may_not_be_read_is_left_and_the_others_come(
    lab: Lab, make: "Maker", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can say that it is bad."""
    lab.forge(lambda _: None)
    prefix = prefix_of(lab.place)
    fetch = prefix.fetch

    def denied(run_id: str, target: Path) -> None:
        if run_id == "r0":
            raise StepcastError("s3://… does not let us read it: AccessDenied")
        fetch(run_id, target)

    monkeypatch.setattr(prefix, "fetch", denied)
    report = receive(prefix, make.home / "landing")
    assert (report.copied, report.refused, len(report.left)) == (("r1",), (), 1)
    assert "AccessDenied" in report.left[0]
