"""The benchmark of the simulator, on a small job: what it measures, not how fast that was."""

from collections import Counter

import pytest

from benchmarks import simulator
from benchmarks.simulator import inception
from models.async_sgd.graph import Resource

SMALL = {
    "layers": 4,
    "steps": 2,
    "compiled_steps": 2,
    "workers": 3,
    "many_workers": 20,
    "many_workers_steps": 1,
}


def test_every_figure_is_measured() -> None:
    lines: list[str] = []
    table = simulator.BENCHMARK.run(SMALL, lines.append).table
    assert (table["value"] > 0).all()
    assert len(lines) == 3
    assert lines[0].startswith(f"{len(inception(4)[0].names)} operations a step, 3 workers")


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
