"""When each resource is at work in traced steps (Figs. 3(b) and 4 of the ICPE'20 paper)."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from models.async_sgd.stretches import busy
from studies import landed
from studies.rounds import Round

SHOWN_STEPS = 3


@dataclass(frozen=True)
class TracedSteps:
    """The first traced steps of a network: step, resource, start_us and end_us, laid end to end."""

    dnn: str
    label: str
    rows: pl.DataFrame


def traced_steps(round_: Round, landing: Path) -> tuple[TracedSteps, ...]:
    """Return the first `SHOWN_STEPS` of each network's first profile."""
    found: dict[str, TracedSteps] = {}
    for need, run in round_.runs_of("tf_trace").items():
        dnn = need.scenario.workload.dnn
        if dnn not in found:
            tables = landed.tables(landing, run)
            rows = busy(tables["operation"], tables["timing"], SHOWN_STEPS)
            found[dnn] = TracedSteps(dnn, need.scenario.label, rows)
    return tuple(found.values())
