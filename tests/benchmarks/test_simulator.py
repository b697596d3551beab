"""The benchmark of the simulator, on a small job: what it measures, not how fast that was."""

from benchmarks import simulator
from benchmarks.simulator import inception

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
