"""What every committed study needs measured, as plain data."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from studies.parts import Part
from studies.starts import nodes, starts
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
    found: dict[str, list[str]] = {}
    for file in sorted(STUDIES.glob("*.yaml")):
        study = read_study(file)
        for backend in BACKENDS:
            found[f"{study.name}, {backend}"] = sorted(_starts(study, backend))
        again = study.in_round(2)
        if again != study:
            found[f"{study.name}, emulated, again"] = sorted(_starts(again, "emulated"))
    return found


def _starts(study: Study, backend: Backend) -> Iterator[str]:
    for start in starts(study, backend):
        one = start[0]
        on = " + ".join(_group(group) for group in nodes(start, study))
        asked = {name: _plain(value) for name, value in sorted(one.settings.items())}
        runs = "; ".join(sorted(map(_run, start)))
        yield f"{one.probe}, {one.purpose}, on {on}, asked {asked}: {runs}"


def _group(group: NodeGroup) -> str:
    return f"{group.count} {group.role} {group.node_type}"


def _run(part: Part) -> str:
    if part.scenario is not None:
        return f"{part.scenario.scenario_id} ({part.scenario.label})"
    return f"{dict(sorted(part.config.items()))} at {part.link_mbps} Mb/s"


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
