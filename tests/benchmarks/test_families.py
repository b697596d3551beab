"""Errors on families left out, of made-up steps and of a few committed ones."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from benchmarks.families import by_operations, left_out, table, tables
from models.predictddl import model
from models.predictddl.systems import known_of, trained
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
    everything, seen = (
        known_of(tables(["reference_gpu"], tmp_path / name, train=name == "train"), trained)
        for name in ("all", "train")
    )
    assert len(seen.runs) < len(everything.runs)
    assert "gpu.h200" in seen.measured
    with pytest.raises(BadInput, match="found none"):
        known_of(tables(["nobody"], tmp_path / "none", train=False), trained)


def test_families_are_forecast_by_operations_of_the_others(tmp_path: Path) -> None:
    rows = tables(["reference_ceer_pytorch"], tmp_path, train=False)
    found = by_operations(rows, known_of(rows, trained))
    assert set(found) == {"alexnet", "vgg"}, "ResNet normalizes, SqueezeNet joins: no other does"
    assert all(0 < np.abs(errors).max() < 1 for errors in found.values())
    untimed = {**rows, "run": rows["run"].filter(pl.col("probe") == "torch_throughput")}
    assert by_operations(untimed, known_of(untimed, trained)) == {}
