"""Sums of operations and what stands beside them: weights that were planted are found again."""

import polars as pl
import pytest

from models.ceer.public_files import PARAMETERS_OF_SUMS, Beside, PublicSums, fit_sums
from warehouse.records import BadInput

NETWORKS = ("bert_large", "gpt2_large", "opt_13")


def steps(beside_s: dict[str, tuple[float, float, float]]) -> pl.DataFrame:
    """Return steps by device: a constant, so much per billion parameters and per 1,000 launches."""
    rows = []
    for device, (fixed_s, per_parameter_s, per_launch_s) in beside_s.items():
        for place, dnn in enumerate(NETWORKS):
            forward_s, backward_s = 1.0 + place, None if place == 1 else 2.0
            operations = 1000 + 700 * place
            extra_s = (
                fixed_s
                + per_parameter_s * PARAMETERS_OF_SUMS[dnn] / 1e9
                + per_launch_s * operations / 1e3
            )
            total_s = forward_s + (backward_s or 0.0) + extra_s
            told = f"{device} {dnn}", device, dnn, operations, forward_s + 0.1, backward_s, 0.1
            rows.append((*told, total_s))
    names = ["subject_id", "node_type", "dnn", "operations", "forward_s", "backward_s"]
    return pl.DataFrame(rows, [*names, "bookkeeping_s", "value"], orient="row")


@pytest.mark.parametrize(
    ("beside", "planted"),
    [
        ("nothing", (0.0, 0.0, 0.0)),
        ("parameters", (0.02, 0.3, 0.0)),
        ("launches", (0.0, 0.0, -0.05)),
    ],
)
def test_what_was_planted_is_found_by_device(
    beside: Beside, planted: tuple[float, float, float]
) -> None:
    other = tuple(2 * one for one in planted)
    rows = steps({"fast": planted, "slow": other})  # type: ignore[dict-item]
    seen = rows.filter(pl.col("dnn") != "opt_13")
    unseen = rows.filter(dnn="opt_13")
    found = fit_sums(beside)(seen).predict(unseen.drop("value"))
    assert found["value"].to_list() == pytest.approx(unseen["value"].to_list())
    assert found["low"].to_list() == [None, None]


def test_without_a_step_of_the_device_nothing_is_said() -> None:
    fitted = fit_sums("launches")(steps({"fast": (0.0, 0.0, 0.0)}))
    assert fitted.predict(steps({"slow": (0.0, 0.0, 0.0)})).is_empty()
    assert '"beside": "launches"' in fitted.parameters_json()


def test_networks_whose_parameters_nobody_counted() -> None:
    rows = steps({"fast": (0.0, 0.1, 0.0)}).with_columns(dnn=pl.lit("new"))
    with pytest.raises(BadInput, match="expected timed steps of networks whose parameters"):
        fit_sums("parameters")(rows)
    assert PublicSums("parameters", {"fast": (0.0, 0.1)}).predict(rows).is_empty()
    assert fit_sums("nothing")(rows).predict(rows).height == 3
