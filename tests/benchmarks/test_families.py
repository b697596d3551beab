"""Errors on families left out, of made-up steps and of a few committed ones."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.families import known, left_out, table
from models.predictddl import model
from networks.families import family
from tests.models.predictddl import study
from warehouse.records import BadInput


def test_each_family_is_forecast_by_the_others() -> None:
    """Steps of one network take twice as long as its work says: nobody else shows that."""
    odd = study.NETWORKS[0]
    found = left_out(study.known(effects={odd: float(np.log(2.0))}), model.ours("none"))
    assert set(found) == set(map(family, study.NETWORKS))
    assert found[family(odd)].mean() == pytest.approx(-0.5, abs=0.1)
    (row,) = table({"work": found}).to_dicts()
    assert row["model"] == "work"
    assert row[family(odd)] == max(row[name] for name in found)
    assert row["families"] == pytest.approx(np.mean([row[name] for name in found]))


def test_with_train_what_judges_stays_hidden(tmp_path: Path) -> None:
    everything = known(["reference_gpu"], tmp_path / "all", train=False)
    seen = known(["reference_gpu"], tmp_path / "train", train=True)
    assert len(seen.runs) < len(everything.runs)
    assert "gpu.h200" in seen.measured
    with pytest.raises(BadInput, match="found none"):
        known(["nobody"], tmp_path / "none", train=False)
