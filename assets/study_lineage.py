"""A study as lineage shows it: which probes and systems it concerns, and what rests on what."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from forecasting.inputs import input_probes, input_runs_by_system, inputs_of_systems, systems_of
from models.system import System
from profilers.probe import PlannedRun
from profilers.probes import PROBES
from studies.planned_runs import required_runs
from studies.study import Study, read_study
from warehouse.records import Backend, Purpose, error_context


@dataclass(frozen=True)
class StudyLineage:
    """A study and its file, what it needs, and by system what its forecasts rest on.

    Systems that refuse all test scenarios are not in `systems`.
    """

    path: Path
    study: Study
    needs: tuple[PlannedRun, ...]
    rests: Mapping[System, tuple[PlannedRun, ...]]
    backend: Backend = "emulated"

    @property
    def name(self) -> str:
        """The study's name as Dagster permits it in names of jobs, groups and operations."""
        return re.sub(r"\W", "_", self.study.name)

    @property
    def systems(self) -> tuple[System, ...]:
        """The systems that forecast a scenario of it."""
        return tuple(self.rests)

    @property
    def profiling(self) -> tuple[str, ...]:
        """The probes whose runs predictors may see, in the order in which they run."""
        return self._probes("profile")

    @property
    def measuring(self) -> tuple[str, ...]:
        """The probes that measure what stays hidden until it judges forecasts."""
        return self._probes("measurement")

    def _probes(self, purpose: Purpose) -> tuple[str, ...]:
        probes = {need.probe for need in self.needs if need.purpose == purpose}
        return tuple(name for name in PROBES if name in probes)

    def learned(self, system: System) -> list[dg.AssetKey]:
        """Return the profiles of other studies that a system learns from."""
        if not system.transfers_across_hosts:
            return []
        judged = (curve for curve in self.study.curves if curve.is_judged)
        probes = set[str]().union(*(input_probes(system, curve, self.backend) for curve in judged))
        return [
            dg.AssetKey([name, "profiles", probe])
            for name in self.study.learns_from
            for probe in sorted(probes)
        ]

    def key(self, group: str, noun: str) -> dg.AssetKey:
        """Return the key of an asset of this study."""
        return dg.AssetKey([self.study.name, group, noun])


def read_lineage(path: Path, backend: Backend = "emulated") -> StudyLineage:
    """Read a study file for its lineage where it runs on a backend.

    Raises:
        BadInput: as `read_study`, or a system or the settings of a probe are not possible.
    """
    study = read_study(path)
    with error_context(f"{path}"):
        systems = systems_of(study)
        needed = required_runs(study, backend, inputs_of_systems(systems))
    return StudyLineage(
        path, study, needed, input_runs_by_system(systems, study, needed, backend), backend
    )
