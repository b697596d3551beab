"""What was rented, in the history: each entry of the book lands once (probe `renting`)."""

import fcntl
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from profilers import clock, private
from profilers.clusters import owner
from profilers.renting.book import FOLDER, Book, Ended, Entries, Entry, Intent, Launched
from profilers.renting.cap import each_usd, worst_usd
from studies.origin import with_origin
from warehouse.landing import land, landed_runs
from warehouse.records import Run

PROBE, TABLE = "renting", "rented"
PROVIDER = "aws"
_ROW = pl.Schema(
    {
        "entry": pl.Int32(),
        "kind": pl.String(),
        "written_at": pl.Datetime("us", "UTC"),
        "token": pl.String(),
        "instance": pl.String(),
        "account": pl.String(),
        "region": pl.String(),
        "zone": pl.String(),
        "node_type": pl.String(),
        "market": pl.String(),
        "instances": pl.Int32(),
        "usd_per_hour": pl.Float64(),
        "volume_usd_per_hour": pl.Float64(),
        "hours": pl.Float64(),
        "seconds": pl.Float64(),
        "usd": pl.Float64(),
        "code": pl.String(),
        "reason": pl.String(),
    }
)


def land_book(home: Path) -> str | None:
    """Land what the book of a home has had since it last landed; return the run, if there is one.

    Raises:
        BadInput: the book cannot be read.
    """
    if not (home / FOLDER).exists():
        return None
    descriptor = private.opened(private.folder(home / FOLDER) / "landing")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return _landed(home, Book(home / FOLDER).read())
    finally:
        os.close(descriptor)


def _landed(home: Path, entries: Entries) -> str | None:
    landing, of = home / "landing", owner.token()
    first = max((_next(run) for run in landed_runs(landing) if _is_of(run, of)), default=0)
    fresh = entries.all[first:]
    if not fresh:
        return None
    rows = [
        {"entry": first + place, "kind": entry.kind, "written_at": entry.at, **row}
        for place, entry in enumerate(fresh)
        for row in _rows(entry, entries)
    ]
    run = _run(of, first, fresh)
    land(landing, run, None, {TABLE: pl.DataFrame(rows, _ROW)})
    return run.run_id


def _rows(entry: Entry, entries: Entries) -> Iterator[Mapping[str, object]]:
    if isinstance(entry, Launched):
        yield from ({"token": entry.token, "instance": id_} for id_ in entry.ids)
    elif isinstance(entry, Ended):
        launch = _launch_of(entry.id, entries)
        usd = None if launch is None else each_usd(launch, entry.seconds)
        yield {"instance": entry.id, "seconds": entry.seconds, "usd": usd}
    elif isinstance(entry, Intent):
        told = entry.model_dump(exclude={"kind", "owner", "count", "at"})
        yield {**told, "instances": entry.count, "usd": worst_usd(entry)}
    else:
        yield {"token": entry.token, "code": entry.code, "reason": entry.reason}


def _launch_of(id_: str, entries: Entries) -> Intent | None:
    tokens = (token for token, one in entries.launched.items() if id_ in one.ids)
    return next((entries.intents[token] for token in tokens if token in entries.intents), None)


def _is_of(run: Run, home_token: str) -> bool:
    return run.probe == PROBE and run.config.get("home") == home_token


def _next(run: Run) -> int:
    """Return the place of the first entry that a run did not bring."""
    first, count = run.config.get("first"), run.config.get("entries")
    assert isinstance(first, int)
    assert isinstance(count, int)
    return first + count


def _run(home_token: str, first: int, fresh: Sequence[Entry]) -> Run:
    at = clock.now()
    return with_origin(
        Run(
            run_id=f"{at:%Y%m%dT%H%M%S}-{PROBE}-{uuid.uuid4().hex[:8]}",
            probe=PROBE,
            purpose="profile",
            study=PROBE,
            repeat=1,
            scenario_id=None,
            backend="imported",
            status="ok",
            started_at=min(at, *(entry.at for entry in fresh)),
            ended_at=at,
            host_id=PROVIDER,
            host={"provider": PROVIDER},
            software={},
            config={"home": home_token, "first": first, "entries": len(fresh)},
        )
    )
