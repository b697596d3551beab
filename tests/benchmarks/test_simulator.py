"""The benchmark of the simulator, on a small job: what it measures, not how fast that was."""

import numpy as np
import pytest

from benchmarks import simpy_model, simulator
from benchmarks.simulator import inception
from models.async_sgd.simulator import simulate

SMALL = {
    "layers": 4,
    "steps": 2,
    "compiled_steps": 2,
    "simpy_steps": 1,
    "workers": 3,
    "many_workers": 20,
    "many_workers_steps": 1,
}


def test_every_figure_is_measured() -> None:
    lines: list[str] = []
    table = simulator.BENCHMARK.run(SMALL, lines.append).table
    assert (table["value"] > 0).all()
    values, ratios = (dict(table.select("what", name).rows()) for name in ("value", "ratio"))
    assert ratios["compiled"] == pytest.approx(values["compiled"] / values["SimPy"], rel=0.02)
    assert len(lines) == 4
    assert lines[0].startswith(f"{len(inception(4)[0].names)} operations a step, 3 workers")


def test_simpy_simulates_the_same() -> None:
    graph, steps = inception(4)
    chosen = simulator.options(3, 3)
    simulated = simulate(graph, steps, chosen)
    ends_s, chunks = simpy_model.simulate(graph, steps, chosen)
    np.testing.assert_allclose(ends_s, simulated.step_ends_s, rtol=1e-9)
    assert chunks == simulated.events
