"""A fleet that is watched and profiled again for a simulated year: recorded probes are replayed.

Each night lands, loads, is judged and published as real nights are; machines alone are stood in
for. Nights between the first and the last ones may be copies of the first, rows of the warehouse
alone: replaying a year of a thousand members takes hours.
"""

import io
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.child import memory_mb, seconds
from benchmarks.contract import Benchmark, Figure, Outcome, Say, tabulated
from fleet.members import WATCH, Member, write_members
from fleet.page import read_fleet_page
from fleet.schedule import agenda
from fleet.watch import watch
from pipelines.cli import fleet_job
from profilers.clusters.fleet import VARIABLE
from profilers.watch import probe as watching
from reports import fleet_page
from studies.messages import Progress
from studies.rounds import Round, refresh_round
from studies.run_settings import with_settings
from warehouse import loader
from warehouse.connection import connect
from warehouse.durable_files import scratch
from warehouse.history import PublishedHistory
from warehouse.home import CHECKOUT, HISTORY, MAIN, home
from warehouse.landing import land
from warehouse.publication import publish
from warehouse.records import Run, content_hash
from warehouse.sets import Sets
from warehouse.warehouse import Warehouse

BEGAN = datetime(2030, 1, 6, 2, tzinfo=UTC)
"""The first night: a Sunday, when weekly visits are due."""
_DAY = timedelta(days=1)
_PROFILES = "links"
_WALK = 0.001
"""Standard deviation by which a member's steps become slower or faster from night to night."""
_SLOWER = 1.25
"""How many times as long steps take on members that changed."""
_CHANGED = 50
"""One in so many members changes, three nights before the last one."""
_QUERIES: Mapping[str, Sequence[str]] = {
    "alarms": (),
    "confirmed_alarms": (),
    "fleet_runs": ("node_type",),
    "judgements": ("node_type",),
    "last_judgements": (),
    "stale_fits": (),
    "stale_runs": (),
    "watches": ("node_type",),
}
"""What is asked about a fleet, and what each is given: about all, where nothing is."""


@dataclass(frozen=True)
class RecordedRun:
    """A run that was really measured, with its tables but for its own record."""

    run: Run
    tables: Mapping[str, pa.Table]


def recorded() -> dict[str, list[RecordedRun]]:
    """Return quiet probes of one start of a host, and profiles of links, by probe.

    Raises:
        BadInput: the checkout lacks its data.
    """
    runs_by_probe: dict[str, list[RecordedRun]] = {WATCH: [], _PROFILES: []}
    for folder in ("drift", "reference"):
        sets = Sets(CHECKOUT / "data" / folder)
        for run in sets.runs():
            if run.probe in runs_by_probe and run.status == "ok" and "injected" not in run.config:
                tables = sets.tables(run.run_id)
                kept = {
                    name: table.drop_columns("run_id")
                    for name, table in tables.items()
                    if name not in ("run", "scenario")
                }
                runs_by_probe[run.probe].append(RecordedRun(run, kept))
    last_boot = runs_by_probe[WATCH][-1].run.host["boot_id"]
    runs_by_probe[WATCH] = [
        each for each in runs_by_probe[WATCH] if each.run.host["boot_id"] == last_boot
    ]
    return runs_by_probe


@dataclass
class Replay:
    """Stands in for machines: lands a recorded run as what a member has just measured.

    Attributes:
        recorded: runs by probe.
        names: of the members.
        days: that are simulated.
        now: the simulated moment, UTC; a second later for each run.
    """

    recorded: Mapping[str, Sequence[RecordedRun]]
    names: Sequence[str]
    days: int
    now: datetime = BEGAN
    _slowness: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Draw how slow each member is each night."""
        last = self.days - 1
        for number, name in enumerate(self.names):
            random = np.random.default_rng([number, 1])
            walk = random.normal(0, 0.1) + np.cumsum(random.normal(0, _WALK, self.days))
            self._slowness[name] = np.exp(walk)
            if number % _CHANGED == 0:
                self._slowness[name][max(last - 3, 0) :] *= _SLOWER

    def clock(self) -> datetime:
        """Return the simulated moment."""
        return self.now

    def measure(self, round_: Round, probe: str, landing: Path, progress: Progress) -> Round:
        """Land what a round lacks of a probe, as `studies.measurement.profile`."""
        name = round_.study.name.partition(".")[2]
        number, day = self.names.index(name), (self.now - BEGAN) // _DAY
        landed = []
        for need in round_.missing_of(probe, "profile"):
            # The probe after a probe of the same night is the one that was measured after it.
            start = int(np.random.default_rng([number, day, 2]).integers(1 << 16))
            of = self.recorded[probe][(start + round_.repeat) % len(self.recorded[probe])]
            self.now += timedelta(seconds=1)
            identity = content_hash(f"{round_.study.name} {probe} {round_.repeat}")[:8]
            run = of.run.model_copy(
                update={
                    "run_id": f"{self.now:%Y%m%dT%H%M%S}-{probe}-{identity}",
                    "study": round_.study.name,
                    "repeat": round_.repeat,
                    "backend": round_.backend,
                    "host_id": round_.host_id,
                    "host": {**of.run.host, "boot_id": f"boot {number} {day // 60}"},
                    "config": {
                        **of.run.config,
                        **need.subject.config,
                        "link_mbps": need.subject.link_mbps,
                    },
                    "started_at": self.now,
                    "ended_at": self.now + (of.run.ended_at - of.run.started_at),
                }
            )
            landed_run = with_settings(run, need.settings)
            land(landing, landed_run, None, self._as_slow(of.tables, self._slowness[name][day]))
            landed.append(landed_run)
        return refresh_round(round_, [*round_.runs, *landed])

    @staticmethod
    def _as_slow(tables: Mapping[str, pa.Table], slowness: float) -> dict[str, Any]:
        """Return tables whose steps took so many times as long."""
        if "sample" not in tables:
            return dict(tables)
        is_step = pl.col("metric").is_in([watching.STEP_TIME, watching.STEP_CPU])
        value = pl.when(is_step).then(pl.col("value") * slowness).otherwise("value")
        sample = pl.DataFrame(tables["sample"]).with_columns(value=value)
        return {**tables, "sample": sample}


def declare(place: Path, names: Sequence[str]) -> None:
    """Write the fleet file and the members of a home: machines of one's own, one of each type."""
    types = "".join(f"  {name}: {{threads: 16}}\n" for name in names)
    machines = "".join(
        f"  - {{node_type: {name}, address: {IPv4Address('10.0.0.0') + number}}}\n"
        for number, name in enumerate(names)
    )
    (place / "fleet.yaml").write_text(f"node_types:\n{types}machines:\n{machines}")
    members = {
        name: Member(
            node_type=name, probes=(_PROFILES,), every="week", backend="ssh", added_at=BEGAN
        )
        for name in names
    }
    write_members(place, members)


@contextmanager
def living_in(place: Path) -> Iterator[None]:
    """Make a folder the home of this process, and its fleet file that which counts."""
    before = {name: os.environ.get(name) for name in ("STEPCAST_HOME", VARIABLE)}
    os.environ |= {"STEPCAST_HOME": str(place), VARIABLE: str(place / "fleet.yaml")}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class TimedWarehouse(Warehouse):
    """A warehouse that knows how long its loads took, publication included."""

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.load_s, self.loaded = 0.0, 0

    def load(self, *, verify: bool = False, recheck: bool = True) -> loader.LoadReport:
        """Load as ever, and take the time."""
        started_s = time.perf_counter()
        report = super().load(verify=verify, recheck=recheck)
        self.load_s += time.perf_counter() - started_s
        self.loaded += len(report.loaded)
        return report


@dataclass(frozen=True)
class Night:
    """What one night took, seconds in all and of loading, and how many runs were loaded."""

    seconds: float
    load_s: float
    runs: int


def replay_night(place: Path, replay: Replay, day: int) -> Night:
    """Do all that is due in one night: watches, then visits; a night begun before goes on."""
    started_s, warehouse = time.perf_counter(), TimedWarehouse(place)
    replay.now = max(replay.now, BEGAN + day * _DAY + timedelta(seconds=1))
    warehouse.load(recheck=False)
    due = [item.visits for item in agenda(place, replay.now) if item.watches and item.due.now]
    if due:
        watch(list(filter(None, due)), warehouse, Progress(), replay.measure, replay.clock)
    for item in agenda(place, replay.now):
        if item.due.now and not item.watches and item.visits is not None:
            for probe in item.member.probes:
                replay.measure(item.visits.round_, probe, warehouse.landing, Progress())
    warehouse.load(recheck=False)
    return Night(time.perf_counter() - started_s, warehouse.load_s, warehouse.loaded)


def grow(place: Path, days: int, copies: int) -> None:
    """Copy the first nights of a fleet so many times, each later than the one before."""
    identity = (
        "CASE WHEN {0} IS NULL THEN NULL ELSE strftime(strptime(substr({0}, 1, 15), "
        "'%Y%m%dT%H%M%S') + to_days($shift), '%Y%m%dT%H%M%S') || substr({0}, 16) || '-' || $copy "
        "END AS {0}"
    )
    shifted = {
        "run": [
            "repeat + $copy * getvariable('most') AS repeat",
            *(f"{name} + to_days($shift) AS {name}" for name in ("started_at", "ended_at")),
        ],
        "judgement": [identity.format("watched"), identity.format("confirmed_by")],
    }
    tables = {"loaded": "meta", **dict.fromkeys(("run", "sample", "link", "judgement"), "raw")}
    with connect(place / MAIN) as connection:
        connection.execute("SET VARIABLE most = (SELECT max(repeat) FROM raw.run)")
        for table, schema in tables.items():
            connection.execute(f"CREATE TEMP TABLE first_{table} AS FROM {schema}.{table}")
        connection.begin()
        for copy in range(1, copies + 1):
            values = {"copy": copy, "shift": copy * days}
            for table, schema in tables.items():
                columns = ", ".join([identity.format("run_id"), *shifted.get(table, [])])
                connection.execute(
                    f"INSERT INTO {schema}.{table} BY NAME "
                    f"SELECT * REPLACE ({columns}) FROM first_{table} ORDER BY run_id",
                    values,
                )
        connection.commit()
        publish(connection, place / MAIN, place / HISTORY)


def measure(sizes: Mapping[str, int], progress: Say) -> Outcome:
    """Measure a fleet in a scratch home within this one, given back at the end."""
    home().mkdir(parents=True, exist_ok=True)
    with scratch(home()) as place, living_in(place):
        place.mkdir()
        return measure_in(place, sizes, progress)


def measure_in(place: Path, sizes: Mapping[str, int], progress: Say) -> Outcome:
    """Measure a fleet in an empty home, which is that of this process.

    `sizes` are members, days, and replayed: how many nights at either end are; those between are
    copies of the first.
    """
    members, days, replayed = sizes["members"], sizes["days"], sizes["replayed"]
    names = [f"lab.{number:04}" for number in range(members)]
    declare(place, names)
    copies = max((days - 2 * replayed) // replayed, 0)
    days = days if not copies else (copies + 2) * replayed
    replay = Replay(recorded(), names, days)
    nights, first_mb = [], 0.0
    for day in range(days):
        if copies and day == replayed:
            progress(f"nights {day + 1} to {day + copies * replayed}: copies of the first")
            grow(place, replayed, copies)
        if copies and replayed <= day < days - replayed:
            continue
        nights.append(replay_night(place, replay, day))
        first_mb = first_mb or memory_mb("VmRSS")
        progress(f"night {day + 1} of {days}: {nights[-1].seconds:.1f} s")
    last_mb = memory_mb("VmRSS")
    some = max(min(7, len(nights) // 2), 1)
    first, last = nights[:some], nights[-some:]
    first_s, last_s = (fmean(night.seconds for night in week) for week in (first, last))
    first_ms, last_ms = _load_ms(first), _load_ms(last)
    with connect(place / HISTORY, read_only=True) as connection:
        (runs, alarms, changed) = connection.execute(
            "SELECT (SELECT count(*) FROM raw.run), count(DISTINCT watched), "
            "count(DISTINCT node_type) FILTER (confirmed) FROM raw.judgement WHERE alarm"
        ).fetchone() or (0, 0, 0)
    of_first = "the first week"
    return tabulated(
        Figure("a night of the last week", last_s, "s", last_s / first_s, of_first),
        Figure("to load and publish a run then", last_ms, "ms", last_ms / first_ms, of_first),
        Figure("memory then", last_mb, "MB", last_mb / first_mb, "the first night"),
        Figure("memory at most", memory_mb("VmHWM"), "MB"),
        *(Figure(what, time_s, "s") for what, time_s in _pages_s(place, replay.now).items()),
        *(Figure(f"query {what}", s, "s") for what, s in _queries_s(place, names[0]).items()),
        notes=(
            f"{members:,} members, {days} days; {len(nights)} nights were replayed. {runs:,} runs, "
            f"{(place / HISTORY).stat().st_size / 1e6:,.0f} MB. {alarms} alarms; {changed} members "
            "changed.",
        ),
    )


def _load_ms(nights: Sequence[Night]) -> float:
    return 1000 * sum(night.load_s for night in nights) / sum(night.runs for night in nights)


def _pages_s(place: Path, at: datetime) -> dict[str, float]:
    page = place / fleet_page.FILE
    with redirect_stdout(io.StringIO()):
        return {
            "fleet list": seconds(fleet_job.show_members),
            "fleet status": seconds(lambda: fleet_job.show_status(at=at)),
            "fleet page": seconds(lambda: fleet_page.write(read_fleet_page(place, at), page)),
        }


def _queries_s(place: Path, node_type: str) -> dict[str, float]:
    warehouse = PublishedHistory(place)
    return {
        name: seconds(partial(warehouse.query, name, **dict.fromkeys(given, node_type)))
        for name, given in _QUERIES.items()
    }


BENCHMARK = Benchmark(
    "A fleet that is watched each night and profiled each week of a simulated year, by recorded "
    "probes: they land, are loaded, judged and published, and alarms are probed again.",
    "A checkout; a minute or two and 1 GB of the home. Nights between those replayed at either end "
    "are copies of the first.",
    measure,
    {"members": 100, "days": 364, "replayed": 7},
)
