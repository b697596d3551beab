"""The judging of forecasts on GPUs, on a part of the public measurements."""

import re
from pathlib import Path

import pytest

from benchmarks import gpu
from benchmarks.gpu_figures import Figure
from benchmarks.gpu_memory import tracked
from models.gpu_step.judged_steps import without_device
from models.gpu_step.measurements import Measurements
from models.gpu_step.public_measurements import read_measurements
from tests.models.gpu_step.public import PUBLIC, public_tables
from warehouse.records import BadInput


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Measurements:
    tables = public_tables()
    monkeypatch.setattr(gpu, "public_tables", lambda _: tables)
    monkeypatch.setattr(gpu, "tracked", lambda _: ())
    return read_measurements(tables)


def test_every_figure_says_how_many_and_how_wrong(few: Measurements) -> None:
    lines: list[str] = []
    outcome = gpu.measure(PUBLIC, lines.append)
    assert outcome.notes[0].startswith(f"{len(few.steps)} of {len(few.steps)} steps of gpu_h100")
    assert len(lines) == 2
    by_name = {row["judged"]: Figure(**row) for row in outcome.table.to_dicts()}
    steps = by_name["gpu_h100, families left out: step"]
    assert steps.n == len(few.steps)
    assert 0 < steps.median <= steps.largest < 200
    # What a repeated measurement differs by is told beside.
    assert steps.floor == pytest.approx(
        sum(abs(100 * (step.synchronised_us / step.step_us - 1)) for step in few.steps)
        / len(few.steps)
    )
    assert "larger of both" in steps.beside
    memory = by_name["gpu_h100: peak memory"]
    assert memory.n == len(few.steps) and memory.error < 10 and memory.largest < 25
    traced = by_name["H100 left out, 1 own trace: the same network, GPU time"]
    assert traced.n == 6 and traced.error < float(traced.beside.split()[1]) / 2
    assert by_name["H100 left out, 1 own trace: other networks, step"].n == 17
    published = by_name["neusight, each device left out: inference"]
    assert published.n == 25 and "NeuSight's own" in published.beside
    assert re.search(r"\(n = 25; ours is nearer in \d+ rows\)", published.beside)
    assert by_name["pycls, V100 left out: passes of RegNets, float32"].n == 1


def test_the_tracker_of_pytorch_is_asked_beside_us(few: Measurements) -> None:
    (row,) = tracked([step for step in few.steps if step.network == "resnet50"])
    assert row.n == 1 and row.error < 10
    theirs = re.match(r"PyTorch's MemTracker (\d+\.\d) % \(n = 1; .*, ours \d+\.\d s", row.beside)
    assert theirs is not None and float(theirs[1]) < 25


def test_a_device_is_left_out_with_all_boards_of_its_chip(few: Measurements) -> None:
    kept = without_device(few.timings, "a100-pcie-40gb")
    names = {timing.device.name for timing in kept}
    assert names and not any(name.startswith("a100") for name in names)


def test_a_folder_without_sets_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds no sets of public measurements"):
        gpu.public_tables(tmp_path)
