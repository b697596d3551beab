"""Two sites, one history: runs go to a prefix whole, come from it once, and bad ones stay apart."""

import errno
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest

from tests.warehouse.test_sets import content as dated
from warehouse import bucket, limits, sites
from warehouse.check import check
from warehouse.landed_files import seal
from warehouse.landing import QUARANTINE, REASON, land, landed_run, landed_runs
from warehouse.records import BadInput, StepcastError
from warehouse.sites import (
    FolderPrefix,
    Prefix,
    ReceiveReport,
    prefix_of,
    push,
    receive,
    waiting_runs,
)
from warehouse.transfer import RECEIVED, copy_run, copy_runs

if TYPE_CHECKING:
    from tests.warehouse.conftest import Maker

Sites = Callable[..., "Maker"]


@pytest.fixture
def site(tmp_path: Path, make: "Maker") -> Sites:
    """Return what makes a site on which runs have landed, each with an artefact."""

    def made(name: str, *run_ids: str) -> "Maker":
        maker = type(make)(tmp_path / name)
        for run_id in run_ids:
            folder = maker.profile(run_id, maker.scenario())
            (folder / "artefacts").mkdir()
            (folder / "artefacts" / "trace.pb").write_bytes(run_id.encode())
        return maker

    return made


def landing(maker: "Maker") -> Path:
    return maker.home / "landing"


def pushed(maker: "Maker", place: str) -> tuple[str, ...]:
    return push(landing(maker), prefix_of(place)).pushed


def received(make: "Maker", place: str) -> ReceiveReport:
    return receive(prefix_of(place), landing(make))


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != RECEIVED)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def spoil(place: str, name: str, text: bytes) -> None:
    """Put other bytes in the place of a file of a run: `r1/timing.parquet`."""
    if place.startswith("s3://"):
        name_of_bucket, _, path = place.removeprefix("s3://").partition("/")
        boto3.client("s3").put_object(Bucket=name_of_bucket, Key=f"{path}/runs/{name}", Body=text)
    else:
        (Path(place) / name).write_bytes(text)


def withdraw(place: str, run_id: str) -> None:
    """Do what the page says to do before a run is pushed again."""
    if place.startswith("s3://"):
        name_of_bucket, _, path = place.removeprefix("s3://").partition("/")
        boto3.client("s3").delete_object(Bucket=name_of_bucket, Key=f"{path}/landed/{run_id}.json")
    else:
        (Path(place) / run_id).rename(Path(place) / f".{run_id}")


def test_runs_of_two_sites_come_whole_and_once(place: str, make: "Maker", site: Sites) -> None:
    first, second = site("one", "r1", "r3"), site("other", "r2")
    assert (pushed(first, place), pushed(second, place)) == (("r1", "r3"), ("r2",))
    again = push(landing(first), prefix_of(place))
    assert (again.pushed, again.unchanged, again.refused) == ((), 2, ())
    assert sorted(waiting_runs(prefix_of(place), landing(make))) == ["r1", "r2", "r3"]
    assert received(make, place) == ReceiveReport(("r1", "r2", "r3"), (), (), ())
    assert content(landing(make)) == content(landing(first)) | content(landing(second))
    assert make.warehouse.load().loaded == ("r1", "r2", "r3")
    assert list(waiting_runs(prefix_of(place), landing(make))) == []
    assert received(make, place) == ReceiveReport((), (), (), ())
    assert make.warehouse.load().unchanged == 3
    assert make.rows("SELECT sequence FROM meta.loaded ORDER BY 1")["sequence"].to_list() == [
        1,
        2,
        3,
    ]
    assert check(make.home).findings == ()


def test_what_was_received_can_be_pushed_on(
    place: str, make: "Maker", site: Sites, tmp_path: Path
) -> None:
    pushed(site("one", "r1"), place)
    received(make, place)
    further = tmp_path / "further"
    further.mkdir()
    assert pushed(make, str(further)) == ("r1",)
    assert not (further / "r1" / RECEIVED).exists()
    assert content(further) == content(landing(make))


def test_a_run_that_is_put_there_in_part_is_not_there(
    place: str, site: Sites, make: "Maker", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last step fails: the rename, or the manifest."""
    sender = site("one", "r1")

    def fails(*_: object) -> None:
        raise StepcastError("run r1 did not get there")

    with monkeypatch.context() as broken:
        broken.setattr(sites, "put_in_place", fails)
        broken.setattr(bucket.Manifest, "canonical_json", fails)
        with pytest.raises(StepcastError, match="run r1 did not get there"):
            pushed(sender, place)
    assert list(prefix_of(place).runs()) == []
    assert received(make, place).copied == ()
    assert pushed(sender, place) == ("r1",)
    assert received(make, place).copied == ("r1",)


def test_a_bad_run_is_set_aside_and_comes_again_once_it_is_put_there_again(
    place: str, make: "Maker", site: Sites
) -> None:
    sender = site("one", "r1", "r2", "r3")
    pushed(sender, place)
    whole = (landing(sender) / "r2" / "timing.parquet").read_bytes()
    spoil(place, "r2/timing.parquet", whole[:-1] + b"!")
    first = received(make, place)
    report = make.warehouse.load()
    assert report.loaded == ("r1", "r3")
    (bad,) = first.refused + report.quarantined
    assert (bad.run_id, bad.folder) == ("r2", landing(make) / QUARANTINE / "r2")
    assert "timing.parquet is not" in (bad.folder / REASON).read_text()
    again = received(make, place)
    assert (again.copied, again.refused, again.known_bad) == ((), (), ("r2",))
    assert list(waiting_runs(prefix_of(place), landing(make))) == []
    withdraw(place, "r2")
    assert pushed(sender, place) == ("r2",)
    assert list(waiting_runs(prefix_of(place), landing(make))) == ["r2"]
    assert received(make, place).copied == ("r2",)
    assert make.warehouse.load().loaded == ("r2",)
    assert check(make.home).sound


def test_what_the_loader_sets_aside_is_not_fetched_again(
    place: str, make: "Maker", site: Sites
) -> None:
    """Its files are those that its site pushed, but they are no run."""
    sender = site("one", "r1")
    (landing(sender) / "r1" / "timing.parquet").write_bytes(b"PAR1")
    seal(landing(sender) / "r1")
    pushed(sender, place)
    assert received(make, place).copied == ("r1",)
    assert [run.run_id for run in make.warehouse.load().quarantined] == ["r1"]
    assert received(make, place) == ReceiveReport((), (), (), ("r1",))


def test_a_site_does_not_push_what_is_not_as_it_landed(
    place: str, site: Sites, make: "Maker"
) -> None:
    sender = site("one", "r1", "r2", "r3")
    (landing(sender) / "r1" / "timing.parquet").write_bytes(b"PAR1")
    (landing(sender) / "r2" / "run.parquet").unlink()
    report = push(landing(sender), prefix_of(place))
    assert report.pushed == ("r3",)
    first, second = report.refused
    assert first.startswith("run r1 was not pushed: timing.parquet is not the file that landed")
    assert second.startswith("run r2 was not pushed: run.parquet")
    assert received(make, place).copied == ("r3",)


def test_a_run_that_cannot_be_written_is_left_for_the_next_time(
    place: str, make: "Maker", site: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed(site("one", "r1", "r2"), place)
    prefix = prefix_of(place)
    fetch = prefix.fetch

    def full(run_id: str, target: Path) -> None:
        fetch(run_id, target)
        if run_id == "r1":
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(prefix, "fetch", full)
    report = receive(prefix, landing(make))
    assert (report.copied, report.refused) == (("r2",), ())
    assert report.left == (f"run 'r1' was left in {place}: [Errno 28] No space left on device",)
    assert {path.name for path in landing(make).iterdir()} == {"r2"}
    assert received(make, place).copied == ("r1",)


def test_a_larger_run_than_may_be_is_refused(
    place: str, make: "Maker", site: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = site("one", "large", "small")
    (landing(large) / "large" / "artefacts" / "trace.pb").write_bytes(b"x" * 100_000)
    pushed(large, place)
    monkeypatch.setattr(limits, "RUN_BYTES", 50_000)
    report = received(make, place)
    assert report.copied == ("small",)
    assert [(run.run_id, run.reason) for run in report.refused] == [
        ("large", f"its files hold more than 0 GiB (in {place})")
    ]
    assert {path.name for path in report.refused[0].folder.iterdir()} == {REASON, RECEIVED}
    monkeypatch.setattr(limits, "RUN_FILES", 3)
    spoil(place, "large/artefacts/more", b"")
    fresh = receive(prefix_of(place), landing(make).with_name("fresh"))
    assert {run.reason for run in fresh.refused} == {f"it has more than 3 files (in {place})"}


@pytest.mark.parametrize("name", ["a b", "..", QUARANTINE, "x" * 201])
def test_a_name_that_can_be_no_runs_is_told_and_asked_for_by_no_sensor(
    name: str, make: "Maker", tmp_path: Path
) -> None:
    class Named(FolderPrefix):
        def runs(self) -> Iterator[str]:
            yield name

    prefix: Prefix = Named(tmp_path)
    report = receive(prefix, landing(make))
    assert (report.copied, report.refused, len(report.left)) == ((), (), 1)
    assert "cannot name a folder" in report.left[0]
    assert list(waiting_runs(prefix, landing(make))) == []


def test_what_a_killed_site_left_in_a_folder_goes_after_a_day(site: Sites, tmp_path: Path) -> None:
    place = tmp_path / "prefix"
    old, young = place / ".push-old", place / ".push-young"
    for folder in (old, young):
        folder.mkdir(parents=True)
        (folder / "run.parquet").write_bytes(b"")
    for path in (old / "run.parquet", old):
        os.utime(path, (time.time() - 90_000,) * 2)
    assert list(prefix_of(str(place)).runs()) == []
    pushed(site("one", "r1"), str(place))
    assert {path.name for path in place.iterdir()} == {"r1", ".push-young"}


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("/nowhere/at/all", "/nowhere/at/all is not a folder; expected one folder per landed run"),
        ("gs://bucket/runs", "is no place for runs; use a folder or s3://bucket/name"),
        ("s3://", "is no place in S3"),
        ("s3://B/x", "is no place in S3"),
        ("s3://bucket/a b", "is no place in S3"),
        ("s3://bucket//a", "is no place in S3"),
    ],
)
def test_a_place_that_cannot_be_is_refused(place: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        prefix_of(place)


@pytest.fixture
def source(make: "Maker", tmp_path: Path) -> Path:
    """Return a landing folder with a run r1 that has an artefact."""
    trace = tmp_path / "trace.pb"
    trace.write_bytes(b"bytes")
    land(tmp_path / "source", make.run("r1", None, "profile"), None, {}, {"trace.pb": trace})
    return tmp_path / "source"


def test_a_run_is_copied_whole_and_once(source: Path, tmp_path: Path) -> None:
    assert copy_runs(source, tmp_path / "landing", ["r1"]) == 1
    assert dated(tmp_path / "landing") == dated(source)
    assert copy_runs(source, tmp_path / "landing", ["r1"]) == 0


def link_file(run: Path, secret: Path) -> None:
    (run / "edge.parquet").symlink_to(secret / "file")


def link_run(run: Path, secret: Path) -> None:
    run.rename(secret / "r1")
    run.symlink_to(secret / "r1")


def put_pipe(run: Path, secret: Path) -> None:
    os.mkfifo(run / "artefacts" / "pipe")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (link_file, "edge.parquet is a symbolic link; put the file itself in its place"),
        (link_run, "r1 is a symbolic link; put the folder itself in its place"),
        (put_pipe, "pipe is no file; remove it"),
    ],
)
def test_what_is_no_plain_file_is_not_copied(
    source: Path, tmp_path: Path, spoil: object, said: str
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "file").write_text("secret")
    assert callable(spoil)
    spoil(source / "r1", secret)
    with pytest.raises(BadInput, match=f"run r1 was not copied: {said}"):
        copy_run(source, tmp_path / "landing", "r1")
    assert list((tmp_path / "landing").iterdir()) == []


@pytest.mark.parametrize(
    "run_id",
    [
        "../r1",
        "..",
        "",
    ],
)
def test_a_run_id_that_leads_elsewhere_is_refused(
    source: Path, tmp_path: Path, run_id: str
) -> None:
    with pytest.raises(BadInput, match=r"run id .* cannot name a folder"):
        copy_run(source / "r1", tmp_path / "landing" / "deep", run_id)


def test_a_run_that_names_another_folder_is_no_landed_run(source: Path) -> None:
    """Else its id, which is foreign, would become a path."""
    (source / "r1").rename(source / "r2")
    assert landed_runs(source) == []


@pytest.mark.parametrize(
    "spoil",
    [
        link_file,
    ],
)
def test_links_in_landing_are_not_followed(source: Path, tmp_path: Path, spoil: object) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "file").write_text("secret")
    assert callable(spoil)
    spoil(source / "r1", secret)
    with pytest.raises(BadInput, match="is a symbolic link"):
        landed_run(source / "r1")


def test_a_pipe_in_landing_is_not_waited_for(source: Path) -> None:
    os.mkfifo(source / "r1" / "edge.parquet")
    with pytest.raises(BadInput, match=r"edge\.parquet is no file"):
        landed_run(source / "r1")
