"""A picture of what happened when to a job."""

import json

import numpy as np
import polars as pl

from reports import plots, timelines
from reports.timelines import NodeLifetime

PLAN = {"configuration": "2 fast@4", "iterations": 20, "train_s": 10.0, "finish_s": 15.0}
ROWS = [
    (0.0, "began", None, None, None, {"deadline_s": 30.0}),
    (0.0, "planned", None, None, 0, PLAN),
    (0.0, "launch", "node0", "fast", None, {}),
    (0.0, "launch", "node1", "fast", None, {}),
    (4.0, "launched", "node0", "fast", None, {}),
    (5.0, "launched", "node1", "fast", None, {}),
    (5.0, "training", None, None, 0, {}),
    (8.0, "progress", None, None, 6, {}),
    (8.5, "lost", "node0", "fast", None, {"reason": "notice"}),
    (9.0, "launch", "node2", "slow", None, {}),
    (10.0, "progress", None, None, 6, {}),
    (90.0, "resumed", None, None, 6, {}),
    (90.0, "launch", "node3", "slow", None, {}),
    (95.0, "launched", "node3", "slow", None, {}),
    (99.0, "released", "node3", "slow", None, {}),
    (99.0, "finished", None, None, 20, {"deadline_s": 120.0}),
]
EVENTS = pl.DataFrame(
    [(*row[:-1], json.dumps(row[-1])) for row in ROWS],
    schema=["at_s", "event", "node", "node_type", "step", "detail"],
    orient="row",
    infer_schema_length=None,
)


def test_nodes_stay_until_they_are_lost_released_or_left_alone() -> None:
    assert timelines.node_lifetimes(EVENTS) == [
        NodeLifetime("node0", "fast", 0.0, 4.0, 8.5, "notice"),
        NodeLifetime("node1", "fast", 0.0, 5.0, 10.0, "controller gone"),
        NodeLifetime("node2", "slow", 9.0, None, 10.0, "controller gone"),
        NodeLifetime("node3", "slow", 90.0, 95.0, 99.0, None),
    ]


def test_progress_plans_and_the_last_deadline_are_drawn() -> None:
    figure = timelines.job_plot(EVENTS, "a job")
    above, below = figure.axes
    done, plan, loss, deadline = above.get_lines()
    assert np.asarray(done.get_ydata()).tolist() == [0, 6, 6, 20]
    assert np.asarray(plan.get_data()).tolist() == [[5.0, 15.0], [0, 20]]
    assert np.asarray(loss.get_xdata()).tolist() == [8.5, 8.5]
    assert np.asarray(deadline.get_xdata()).tolist() == [120.0, 120.0]
    labels = [label.get_text() for label in below.get_yticklabels()]
    assert labels == ["node0", "node1", "node2", "node3"]
    legend = below.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["fast", "slow"]
    assert "2 fast@4" in plots.to_svg(figure)
    assert plots.to_png(figure, dpi=50).startswith(b"\x89PNG")
