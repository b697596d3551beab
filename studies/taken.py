"""How long runs took that are like those a plan has: better than a probe's own guess."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from statistics import median

import pyarrow.parquet as pq

from profilers.probe import Need
from studies.settings import differences
from warehouse.records import Run, Scenario

_NEWEST = 30
"""Runs of a probe that are looked at, the newest first: each costs a look into its folder."""


class Taken:
    """The runs that have landed on a host, and how long they took.

    Two runs are alike if their probe was asked for the same, of the same network on the same nodes;
    a run of the very same scenario counts more than one that is merely like it.
    """

    def __init__(self, runs: Iterable[Run], host_id: str, landing: Path) -> None:
        """Take the runs of one host.

        Args:
            runs: that have landed.
            host_id: of the host that is planned for.
            landing: the folder that has them.
        """
        self._landing = landing
        self._runs: dict[str, list[Run]] = {}
        for run in sorted(runs, key=lambda one: one.started_at, reverse=True):
            if run.status == "ok" and run.host_id == host_id:
                self._runs.setdefault(run.probe, []).append(run)

    def seconds(self, need: Need) -> float | None:
        """Return the median of what runs like a need took, None if there is none."""
        same, like = [], []
        for run in islice(self._asked_alike(need), _NEWEST):
            if need.subject.scenario is None:
                same.append(run.took_s)
            elif run.scenario_id == need.scenario.scenario_id:
                same.append(run.took_s)
            elif (found := self._scenario(run)) and _about(found) == _about(need.scenario):
                like.append(run.took_s)
        return median(same or like) if same or like else None

    def _asked_alike(self, need: Need) -> Iterator[Run]:
        about = {**need.subject.config, "link_mbps": need.subject.link_mbps}
        for run in self._runs.get(need.probe, ()):
            if differences(run, need.settings) != {}:
                continue
            if need.subject.scenario is not None or about.items() <= run.config.items():
                yield run

    def _scenario(self, run: Run) -> Scenario | None:
        file = self._landing / run.run_id / "scenario.parquet"
        try:
            (text,) = pq.read_table(file, columns=["canonical"])["canonical"].to_pylist()
            return Scenario.model_validate_json(text)
        except (OSError, ValueError):
            return None


def _about(scenario: Scenario) -> object:
    load = scenario.workload
    nodes = [(one.role, one.node_type, one.count) for one in scenario.nodes]
    return load.dnn, load.framework, load.image_size, tuple(sorted(nodes))
