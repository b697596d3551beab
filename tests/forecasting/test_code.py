"""What names the code that fits systems: what they use, and nothing else."""

import shutil
from pathlib import Path

import pytest

from forecasting import code
from networks import kept_graphs
from warehouse.home import CHECKOUT


def test_what_systems_use_changes_the_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room in ("models", "networks", "warehouse", "forecasting", "profilers"):
        shutil.copytree(CHECKOUT / room, tmp_path / room, ignore=lambda *_: ["__pycache__"])
    monkeypatch.setattr(code, "_ROOT", tmp_path)
    monkeypatch.setattr(kept_graphs, "__file__", str(tmp_path / "networks" / "kept_graphs.py"))
    monkeypatch.setattr(kept_graphs, "digest", kept_graphs.digest.__wrapped__)
    before = code.code_digest.__wrapped__()
    assert before.startswith("code:")
    for file, changes in (
        ("models/srift/latency.py", True),
        ("models/predictddl/embedders/digits.safetensors", True),
        ("networks/pytorch_graph.py", True),
        ("networks/figures.csv", False),
        ("warehouse/views/01_visible.sql", True),
        ("forecasting/fits.py", True),
        ("profilers/clusters/node_types.yaml", True),
        ("forecasting/study_checks.py", False),
    ):
        with (tmp_path / file).open("ab") as out:
            out.write(b"\n")
        now = code.code_digest.__wrapped__()
        assert (now != before) == changes, file
        before = now
