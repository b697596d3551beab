"""Where a round's figures come from: host, cluster, software, runs."""

import json

from forecasting.findings.about import About
from reports.html_table import Cell, table
from warehouse.records import Run

_CLUSTER_FACTS = (
    "shaped",
    "cpu_shares_enforced",
    "congestion_control",
    "queue_s",
    "mtu_bytes",
    "cpu_period_us",
)


def section(about: About) -> str:
    """Return two tables in HTML: what the runs have in common, and the runs themselves."""
    if not about.runs:
        return "<p>Nothing has landed.</p>"
    newest = max(about.runs, key=lambda run: run.started_at)
    facts = {
        "study": f"{about.study}, round {about.repeat}",
        "backend": about.backend,
        "cluster": _listed(
            {key: newest.config[key] for key in _CLUSTER_FACTS if key in newest.config}
        ),
        "host": f"{about.host_id}: {_listed(dict(newest.host))}",
        "software": _listed(dict(newest.software)),
        "nodes": "; ".join(about.node_types),
    }
    common = table(
        ["what", "value"],
        [
            [Cell(name, is_number=False), Cell(value, is_number=False, wraps=True)]
            for name, value in facts.items()
        ],
    )
    return common + "<p></p>" + _runs(about)


def _runs(about: About) -> str:
    runs = sorted(about.runs, key=lambda run: run.started_at)
    return table(["run", "purpose", "started, UTC", "seconds"], [_run(run) for run in runs])


def _run(run: Run) -> list[Cell]:
    return [
        Cell(run.run_id, is_number=False),
        Cell(run.purpose, is_number=False),
        Cell(f"{run.started_at:%Y-%m-%d %H:%M:%S}", is_number=False),
        Cell(f"{run.took_s:.1f}"),
    ]


def _listed(facts: dict[str, object]) -> str:
    return ", ".join(
        f"{key.replace('_', ' ')} {value if isinstance(value, str) else json.dumps(value)}"
        for key, value in facts.items()
    )
