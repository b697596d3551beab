"""What assets ask Dagster for: the home and the lock of its runs, rounds of studies, progress."""

import fcntl
import logging
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import dagster as dg
import polars as pl
from pydantic import PrivateAttr

from forecasting.study_checks import load_study, load_unchecked
from profilers.clusters import host_id, owner
from studies.messages import Progress
from studies.planned_runs import required_runs
from studies.renting import renting
from studies.rounds import (
    Round,
    changed_settings,
    latest_round,
    open_round,
    shown_host,
    whole_round,
)
from warehouse.home import REPORT
from warehouse.landing import landed_runs
from warehouse.records import BadInput
from warehouse.sql import read_only
from warehouse.warehouse import Warehouse

OWNER_TAG = "stepcast/owner"
PRIORITY_TAG = "dagster/priority"
"""Runs with a larger one leave the queue first; 0 if not given."""
_UNDER_WAY = [
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
UNFINISHED = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, *_UNDER_WAY]
"""Runs that wait for their turn too."""
_held: set[Path] = set()


@contextmanager
def run_lock(home: Path, waiting: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of runs in `home`; re-entrant in a process, released if it dies.

    `waiting` is told once who holds it.
    """
    path = home / "turn.lock"
    if path in _held:
        yield
        return
    home.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = path.read_text().strip()
            holder = f"process {pid}" if pid else "another process"
            waiting(f"waiting for {holder}, which runs in {home}")
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        _held.add(path)
        try:
            yield
        finally:
            _held.remove(path)


def owner_tag() -> str:
    """Return a tag value that names this process; see `profilers.clusters.owner`."""
    return f"{owner.new_prefix()}-run"


def free_dead_runs(instance: dg.DagsterInstance) -> list[str]:
    """Mark runs whose process died as failed, free their pool slots, and return their ids.

    Dagster's daemon would, but only where it is running: a killed run would else hold its pool
    for ever.
    """
    runs = instance.get_runs(dg.RunsFilter(statuses=_UNDER_WAY))
    dead = [run for run in runs if (tag := run.tags.get(OWNER_TAG)) and not owner.is_living(tag)]
    for run in dead:
        why = "The process of this run was killed; the next run resumes it."
        instance.report_run_failed(run, why)
        if instance.event_log_storage.supports_global_concurrency_limits:
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    return [run.run_id for run in dead]


_LEDGER = Path(__file__).with_name("ledger.sql")


class WarehouseResource(dg.ConfigurableResource):
    """The measurement history under `home`; whoever opens it is in the pool `warehouse`."""

    home: str

    @property
    def landing(self) -> Path:
        """Where probes land; needs no database."""
        return Path(self.home) / "landing"

    @property
    def report(self) -> Path:
        """Where the HTML report is."""
        return Path(self.home) / REPORT

    def published_ledger(self) -> pl.DataFrame:
        """Return who has forecast what, from the published copy, which is never locked."""
        return read_only(Path(self.home), _LEDGER.read_text())

    def open(self) -> Warehouse:
        """Return the warehouse; each of its methods opens and closes the database."""
        return Warehouse(Path(self.home))


@contextmanager
def locked_run(context: dg.InitResourceContext, home: Path) -> Iterator[None]:
    """Wait until a Dagster run may run in a home, and keep the lock while the block runs."""
    if context.instance is not None and context.run is not None:
        context.instance.add_run_tags(context.run.run_id, {OWNER_TAG: owner_tag()})
    with run_lock(home, dg.get_dagster_logger().info):
        if context.instance is not None:
            free_dead_runs(context.instance)
        yield


def profiles(selected: Collection[dg.AssetKey] | None) -> bool:
    """Tell whether a run of Dagster profiles for a study, by its assets; none: all of its job."""
    return not selected or any("profiles" in key.path[1:2] for key in selected)


class RoundsResource(dg.ConfigurableResource):
    """The rounds of studies that a run works on; `backend` overrules what their files say.

    Runs of one home take turns: two would measure the same scenarios, and a run that waits for a
    Dagster pool keeps a core busy, which spoils what the other one measures.
    """

    backend: str | None = None
    warehouse: WarehouseResource
    _opened: dict[Path, Round] = PrivateAttr(default_factory=dict)
    _latest: dict[Path, Round] = PrivateAttr(default_factory=dict)
    _run_id: str = PrivateAttr(default="")
    _profiles: bool = PrivateAttr(default=False)

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator["RoundsResource"]:
        """Wait for this run's turn and keep it until the run ends."""
        with locked_run(context, Path(self.warehouse.home)):
            if context.run is not None:
                self._run_id = context.run.run_id
                self._profiles = profiles(context.run.asset_selection)
            yield self

    def renting(self, round_: Round, progress: Progress) -> AbstractContextManager[None]:
        """Let a round rent its nodes, where they are rented: up to a cap for the whole run."""
        home = Path(self.warehouse.home)
        return renting(home, round_.backend, None, self._run_id, progress.say)

    def opened(self, path: Path) -> Round:
        """Return the round that is to be done: the same throughout a run, also once it is complete.

        Otherwise the probe that completes it would let the next one begin another.
        """
        if path not in self._opened:
            loaded, runs = load_study(path, self.backend), landed_runs(self.warehouse.landing)
            host = host_id(loaded.backend)
            self._opened[path] = open_round(loaded.study, loaded.asking, loaded.backend, host, runs)
            for change in changed_settings(self._opened[path]):
                dg.get_dagster_logger().info(f"settings: {change}")
        return self._opened[path]

    def keep(self, path: Path, round_: Round) -> None:
        """Hand a round on, with what this run has measured of it, to the assets that follow."""
        (self._opened if path in self._opened else self._latest)[path] = round_

    def latest(self, path: Path) -> Round:
        """Return the round that this run has opened, else the one that ran last.

        Where nothing of a study has run on this host, kept runs of another are shown. Nothing may
        have run yet in a round that needs no profiles of its own.

        Raises:
            BadInput: none has run.
        """
        if (kept := self._opened.get(path, self._latest.get(path))) is not None:
            return kept
        loaded, runs = load_unchecked(path, self.backend), landed_runs(self.warehouse.landing)
        this_host = host_id(loaded.backend)
        host = shown_host(loaded.study, loaded.backend, this_host, runs)
        round_ = latest_round(loaded.study, loaded.asking, loaded.backend, host, runs)
        if round_ is None:
            raise BadInput(f"nothing of study {loaded.study.name} has run yet; run it first")
        if host != this_host:
            dg.get_dagster_logger().info(
                f"nothing of it has run on this host; shown is host {host}"
            )
        self._latest[path] = round_
        return round_

    def to_forecast(self, path: Path) -> Round:
        """Return the round whose forecasts are to be made.

        A run that profiles too opens it, whichever comes first: some systems need no profiles.
        Where no probe profiles anything for a study, its forecasts open the round.
        """
        if self._profiles:
            return self.opened(path)
        loaded = load_unchecked(path, self.backend)
        needed = required_runs(loaded.study, loaded.backend, loaded.asking)
        return self.latest(path) if any(need.profiles for need in needed) else self.opened(path)

    def latest_here(self, path: Path) -> Round:
        """Return the same, to go on with: kept runs of another host are not gone on with."""
        round_ = self.latest(path)
        if round_.host_id != host_id(round_.backend):
            raise BadInput(
                f"nothing of study {round_.study.name} has run on this host yet; run it first"
            )
        return round_

    def whole(self, path: Path) -> Round:
        """Return the round that stands for the study in its report.

        Raises:
            BadInput: none has run.
        """
        study = load_unchecked(path, self.backend).study
        return whole_round(self.latest(path), study, landed_runs(self.warehouse.landing))


# What assets do, in Dagster's log.


# Outside a run of Dagster nobody listens; without a handler, Python would print warnings itself.
logging.getLogger("dagster").addHandler(logging.NullHandler())


class LoggedProgress(Progress):
    """Tells Dagster's log, and whoever else listens."""

    def __init__(self, listener: Progress | None = None) -> None:
        self._listener = listener or Progress()

    def say(self, text: str) -> None:
        """Tell what runs now."""
        dg.get_dagster_logger().info(text)
        self._listener.say(text)

    def warn(self, text: str) -> None:
        """Tell what the user should know although the run goes on."""
        dg.get_dagster_logger().warning(text)
        self._listener.warn(text)

    def finished(self, task: str) -> None:
        """Tell that a task of the plan is over."""
        self._listener.finished(task)
