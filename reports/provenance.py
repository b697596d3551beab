"""Where a round's figures come from: host, cluster, software, runs."""

import json

from reports.html_table import Cell, table
from studies.curve import node_types
from studies.rounds import Round
from warehouse.records import Run

_CLUSTER_FACTS = (
    "shaped",
    "cpu_shares_enforced",
    "congestion_control",
    "queue_s",
    "mtu_bytes",
    "cpu_period_us",
)


def section(round_: Round) -> str:
    """Return two tables in HTML: what the runs have in common, and the runs themselves."""
    if not round_.runs:
        return "<p>Nothing has landed.</p>"
    newest = max(round_.runs, key=lambda run: run.started_at)
    facts = {
        "study": f"{round_.study.name}, round {round_.repeat}",
        "backend": round_.backend,
        "cluster": _listed(
            {key: newest.config[key] for key in _CLUSTER_FACTS if key in newest.config}
        ),
        "host": f"{round_.host_id}: {_listed(dict(newest.host))}",
        "software": _listed(dict(newest.software)),
        "nodes": "; ".join(node_types(round_.study.curves)),
    }
    common = table(
        ["what", "value"],
        [
            [Cell(name, is_number=False), Cell(value, is_number=False, wraps=True)]
            for name, value in facts.items()
        ],
    )
    return common + "<p></p>" + _runs(round_)


def _runs(round_: Round) -> str:
    runs = sorted(round_.runs, key=lambda run: run.started_at)
    return table(["run", "purpose", "started, UTC", "seconds"], [_run(run) for run in runs])


def _run(run: Run) -> list[Cell]:
    seconds = (run.ended_at - run.started_at).total_seconds()
    return [
        Cell(run.run_id, is_number=False),
        Cell(run.purpose, is_number=False),
        Cell(f"{run.started_at:%Y-%m-%d %H:%M:%S}", is_number=False),
        Cell(f"{seconds:.1f}"),
    ]


def _listed(facts: dict[str, object]) -> str:
    return ", ".join(
        f"{key.replace('_', ' ')} {value if isinstance(value, str) else json.dumps(value)}"
        for key, value in facts.items()
    )
