"""What assets ask Dagster for: the warehouse's home, and the study with its turn to run."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import get_args

import polars as pl
from dagster import ConfigurableResource, InitResourceContext, get_dagster_logger
from pydantic import PrivateAttr

from assets.turns import OWNER_TAG, free_dead_runs, owner_tag, turn
from profilers.clusters import BackendChoice, choose_backend, host_id
from reports import report
from studies.changes import changes
from studies.feasibility import check_study
from studies.rounds import Round, latest_round, open_round, refreshed, whole_round
from studies.study import Study, read_study
from warehouse.landing import landed_runs
from warehouse.records import Backend, BadInput
from warehouse.warehouse import Warehouse, read_only

_LEDGER = Path(__file__).with_name("ledger.sql")


@cache
def chosen_backend(wanted: str) -> tuple[Backend, str]:
    """Return the backend to use and why; tries this host out once per process.

    Raises:
        BadInput: there is no such choice.
    """
    choices: tuple[BackendChoice, ...] = get_args(BackendChoice)
    for choice in choices:
        if choice == wanted:
            return choose_backend(choice)
    raise BadInput(f"no backend {wanted!r}; the choices are {', '.join(choices)}")


def study_for(path: Path, backend: str | None) -> tuple[Study, Backend, str]:
    """Return a study that can run here, the backend it runs on, and why that one.

    Raises:
        BadInput: the study is wrong or cannot run here.
    """
    study = read_study(path)
    chosen, why = chosen_backend(backend or study.backend)
    check_study(study, path, chosen)
    return study, chosen, why


class WarehouseResource(ConfigurableResource):
    """The measurement history under `home`; whoever opens it is in the pool `warehouse`."""

    home: str

    @property
    def landing(self) -> Path:
        """Where probes land; needs no database."""
        return Path(self.home) / "landing"

    @property
    def report(self) -> Path:
        """Where the HTML report is."""
        return Path(self.home) / report.FILE

    def published_ledger(self) -> pl.DataFrame:
        """Return who has forecast what, from the published copy, which is never locked."""
        return read_only(Path(self.home), _LEDGER.read_text())

    def open(self) -> Warehouse:
        """Return the warehouse; each of its methods opens and closes the database."""
        return Warehouse(Path(self.home))


class StudyResource(ConfigurableResource):
    """The study file a run works on; `backend` overrules what the file says.

    Runs of one home take turns: two would measure the same scenarios, and a run that waits for a
    Dagster pool keeps a core busy, which spoils what the other one measures.
    """

    path: str
    backend: str | None = None
    warehouse: WarehouseResource
    _opened: Round | None = PrivateAttr(None)

    @contextmanager
    def yield_for_execution(self, context: InitResourceContext) -> Iterator["StudyResource"]:
        """Wait for this run's turn and keep it until the run ends."""
        if context.instance is not None and context.run is not None:
            context.instance.add_run_tags(context.run.run_id, {OWNER_TAG: owner_tag()})
        with turn(Path(self.warehouse.home), get_dagster_logger().info):
            if context.instance is not None:
                free_dead_runs(context.instance)
            yield self

    def open_round(self) -> Round:
        """Return the round that is to be done: the same throughout a run, also once it is complete.

        Otherwise the probe that completes it would let the next one begin another.
        """
        runs = landed_runs(self.warehouse.landing)
        if self._opened is None:
            study, backend, _ = study_for(Path(self.path), self.backend)
            self._opened = open_round(study, backend, host_id(backend), runs)
            for change in changes(self._opened):
                get_dagster_logger().info(f"settings: {change}")
        return refreshed(self._opened, runs)

    def latest_round(self) -> Round:
        """Return the round that this run has opened, else the one that ran last.

        Nothing may have run yet in a round that needs no profiles of its own.

        Raises:
            BadInput: none has run.
        """
        if self._opened is not None:
            return self.open_round()
        study, backend, _ = study_for(Path(self.path), self.backend)
        found = latest_round(study, backend, host_id(backend), landed_runs(self.warehouse.landing))
        if found is None:
            raise BadInput(f"nothing of study {study.name} has run yet; run it first")
        return found

    def whole_round(self) -> Round:
        """Return the round that stands for the study in its report.

        Raises:
            BadInput: none has run.
        """
        study, _, _ = study_for(Path(self.path), self.backend)
        return whole_round(self.latest_round(), study, landed_runs(self.warehouse.landing))
