"""The benchmark of the simulator, on a small job: what it measures, not how fast that was."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import simpy_model, simulator
from benchmarks.simulator import inception
from models.async_sgd.graph import Resource
from models.async_sgd.simulator import simulate
from tests.models.async_sgd.graphs import job, options, random_ops

SMALL = {
    "layers": 4,
    "steps": 2,
    "compiled_steps": 2,
    "python_steps": 1,
    "workers": 3,
    "many_workers": 20,
    "many_workers_steps": 1,
    "heap_events": 1000,
}


def test_every_figure_is_measured() -> None:
    lines: list[str] = []
    table = simulator.BENCHMARK.run(SMALL, lines.append).table
    assert (table["value"] > 0).all()
    values = dict(table.select("what", "value").rows())
    ratios = dict(table.select("what", "ratio").rows())
    assert ratios["compiled"] == pytest.approx(values["compiled"] / values["SimPy"], rel=0.02)
    heap = "a heap of 256 alone"
    assert ratios[heap] == pytest.approx(values[heap] / values["compiled"], rel=0.02)
    assert len(lines) == 5
    assert lines[0].startswith(f"{len(inception(4)[0].names)} operations a step, 3 workers")


@given(
    seed=st.integers(0, 10**6),
    count=st.integers(1, 40),
    workers=st.integers(1, 4),
    threads=st.sampled_from([1, 4]),
    window_bytes=st.sampled_from([None, 100.0]),
    newcomer_weight=st.sampled_from([1.0, 0.7]),
)
def test_simpy_simulates_the_same(
    seed: int,
    count: int,
    workers: int,
    threads: int,
    window_bytes: float | None,
    newcomer_weight: float,
) -> None:
    graph, profiled = job(*random_ops(seed, count))
    chosen = options(
        workers,
        3,
        inter_op_threads=threads,
        cores=1.5,
        window_bytes=window_bytes,
        newcomer_weight=newcomer_weight,
        downlink_spread=0.2,
        uplink_spread=0.1,
        client_gap_s=(0.0, 3.5),
        seed=seed % 7,
    )
    simulated = simulate(graph, [profiled], chosen)
    ends_s, chunks = simpy_model.simulate(graph, [profiled], chosen)
    np.testing.assert_allclose(ends_s, simulated.step_ends_s, rtol=1e-9)
    assert chunks == simulated.events


def test_the_job_has_inception_s_size() -> None:
    graph, steps = inception()
    assert len(graph.names) >= 3000
    resources = Counter(graph.resources)
    assert resources[Resource.DOWNLINK] == resources[Resource.UPLINK] == 2 * 95
    sent = [
        sum(size for size, at in zip(graph.sizes_bytes, graph.resources, strict=True) if at is link)
        for link in (Resource.DOWNLINK, Resource.UPLINK)
    ]
    assert sent[0] == sent[1] == pytest.approx(95e6, rel=0.1)
    assert len(set(steps)) == 20
