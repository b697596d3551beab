"""Exchanges of unknown size: every network's is a multiple of every other's."""

import polars as pl
import pytest

from models.srift.public_files import fit_placements
from warehouse.records import BadInput

SIZE = {"bert": 4.0, "cifar10": 1.0, "imagenet": 2.0, "ncf": 0.5}
SLOWNESS_S = {1: 0.0, 2: 0.01, 3: 0.02, 11: 0.1, 21: 0.15, 12: 0.15}


def timed(dnn: str, placements: list[int]) -> pl.DataFrame:
    """Steps that compute for 0.1 s and 0.05 s per image."""
    cells = [(placement, batch_size) for placement in placements for batch_size in (2, 4)]
    return pl.DataFrame(
        [
            {
                "subject_id": f"{dnn} {placement} {batch_size}",
                "dnn": dnn,
                "node_type": "aws",
                "batch_size": batch_size,
                "placement": placement,
                "world_size": sum(map(int, str(placement))),
                "value": 0.1 + 0.05 * batch_size + SIZE[dnn] * SLOWNESS_S[placement],
            }
            for placement, batch_size in cells
        ]
    )


ONE_NODE, TWO_NODES = [1, 2, 3], [11, 21]


def test_a_network_on_one_node_is_forecast_on_two_by_what_the_others_do() -> None:
    others = [timed(dnn, ONE_NODE + TWO_NODES) for dnn in ("cifar10", "imagenet", "ncf")]
    fitted = fit_placements(pl.concat([*others, timed("bert", ONE_NODE)]))
    truth = timed("bert", [11, 12])  # 12 is 21 from the other end
    found = fitted.predict(truth.drop("value"))
    assert found["subject_id"].to_list() == truth["subject_id"].to_list()
    assert found["value"].to_list() == pytest.approx(truth["value"].to_list())


def test_an_unknown_placement_or_batch_is_not_forecast() -> None:
    fitted = fit_placements(timed("cifar10", ONE_NODE))
    assert fitted.predict(timed("cifar10", [11]).drop("value")).is_empty()
    other = timed("cifar10", [2]).drop("value").with_columns(batch_size=8)
    assert fitted.predict(other).is_empty()


def test_no_exchange_is_refused() -> None:
    with pytest.raises(BadInput, match="found no exchange"):
        fit_placements(timed("cifar10", [1]))
