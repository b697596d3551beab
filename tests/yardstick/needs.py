"""What every committed study needs measured, as plain data."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from forecasting.inputs import inputs_of_study
from profilers.probe import PlannedRun
from studies.planned_runs import group_by_start, nodes_of
from studies.planned_runs import required_runs as needs_of
from studies.study import Study, read_study
from warehouse.home import CHECKOUT
from warehouse.records import Backend, NodeGroup

NEEDS = Path(__file__).with_name("needs.json")
"""The yardstick."""
STUDIES = CHECKOUT / "studies"
BACKENDS: tuple[Backend, ...] = ("emulated", "ssh")
"""A backend whose links are shaped as a study says, and one whose links are as they are."""


def needs() -> dict[str, list[str]]:
    """Return, by study, backend and round, what each start of programs measures, sorted.

    Later rounds are alike, so the second stands for them. What it repeats does not depend on the
    backend.
    """
    starts: dict[str, list[str]] = {}
    for file in sorted(STUDIES.glob("*.yaml")):
        study = read_study(file)
        for backend in BACKENDS:
            starts[f"{study.name}, {backend}"] = sorted(_starts(study, backend))
        again = study.in_round(2)
        if again != study:
            starts[f"{study.name}, emulated, again"] = sorted(_starts(again, "emulated"))
    return starts


def _starts(study: Study, backend: Backend) -> Iterator[str]:
    for start in group_by_start(needs_of(study, backend, inputs_of_study(study))):
        first = start[0]
        on = " + ".join(_group(group) for group in nodes_of(start))
        settings = {name: _plain(value) for name, value in sorted(first.settings.items())}
        runs = "; ".join(sorted(map(_run, start)))
        yield f"{first.probe}, {first.purpose}, on {on}, asked {settings}: {runs}"


def _group(group: NodeGroup) -> str:
    return f"{group.count} {group.role} {group.node_type}"


def _run(need: PlannedRun) -> str:
    subject = need.subject
    if subject.scenario is not None:
        return f"{subject.scenario.scenario_id} ({subject.scenario.label})"
    return f"{dict(sorted(subject.config.items()))} at {subject.link_mbps} Mb/s"


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
