"""All-reduces of others: a system with its settings is a cluster; only known ones are forecast."""

import numpy as np
import polars as pl
import pytest

from models.srift.public_files import fit, fit_collectives, fit_placements
from warehouse.records import BadInput

SIZES = [2**exponent for exponent in range(3, 28, 2)]
HOP_S, LINK_BPS = 5e-6, 20e9


def logged(settings: str | None, ranks: int, factor: float = 1.0) -> pl.DataFrame:
    """Rows of a ring on links of 20 GB/s, in place and out of place."""
    wire_bytes = pl.col("size_bytes") * 2 * (ranks - 1) / ranks
    return pl.DataFrame({"size_bytes": SIZES * 2}).with_columns(
        subject_id=pl.format(f"{settings} {ranks} {{}}", "size_bytes"),
        node_type=pl.lit("ALCF polaris"),
        gpu=pl.lit("A100"),
        settings=pl.lit(settings, pl.String),
        nodes=pl.lit(ranks // 4),
        devices_per_node=pl.lit(4),
        world_size=pl.lit(ranks),
        repeat=pl.lit(1),
        value=factor * (2 * (ranks - 1) * HOP_S + wire_bytes / LINK_BPS),
    )


SEEN = pl.concat([logged("env1", 8), logged("env1", 32), logged(None, 8, 2.0)])


def test_latency_and_bandwidth_of_a_cluster_go_for_other_numbers_of_nodes() -> None:
    truth = pl.concat([logged("env1", 16), logged(None, 16, 2.0)])
    forecasts = (
        fit("alpha_beta")(SEEN)
        .predict(truth.drop("value"))
        .join(truth.unique("subject_id"), on="subject_id", suffix="_measured")
    )
    assert forecasts.height == 4 * len(SIZES)
    assert (forecasts["value"] / forecasts["value_measured"] - 1).abs().max() == pytest.approx(
        0, abs=1e-6
    )


def test_trees_are_near_where_the_formula_is_right() -> None:
    truth = logged("env1", 16)
    forecasts = fit("learned")(SEEN).predict(truth.drop("value"))["value"]
    assert np.abs(forecasts.to_numpy() / truth["value"].to_numpy() - 1).max() < 0.1


def test_collectives_of_gpus_go_for_other_numbers_of_nodes() -> None:
    truth = logged("env1", 16)
    forecasts = fit_collectives(SEEN).predict(truth.drop("value"))
    assert forecasts.height == 2 * len(SIZES)
    errors = np.abs(forecasts["value"].to_numpy() / truth["value"].to_numpy() - 1)
    assert errors.mean() < 0.25
    assert fit_collectives(SEEN).predict(logged("env2", 16).drop("value")).is_empty()


def test_rated_bandwidth_is_printed_by_the_operator() -> None:
    """400 Gb/s are 50 GB/s; 2 · 15/16 bytes cross the network for each one."""
    subjects = logged("env1", 16).drop("value").filter(size_bytes=2**27)
    forecasts = fit("rated")(SEEN).predict(subjects)
    assert forecasts["value"].to_list() == pytest.approx([2**27 * 1.875 / 50e9] * 2)


def test_an_unknown_cluster_is_not_forecast() -> None:
    assert fit("rated")(SEEN).predict(logged("env2", 16).drop("value")).is_empty()


def test_a_system_without_rating_is_refused() -> None:
    rows = SEEN.with_columns(node_type=pl.lit("frontier"))
    with pytest.raises(BadInput, match="frontier: no rated bandwidth is known"):
        fit("rated")(rows)


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
    forecasts = fitted.predict(truth.drop("value"))
    assert forecasts["subject_id"].to_list() == truth["subject_id"].to_list()
    assert forecasts["value"].to_list() == pytest.approx(truth["value"].to_list())


def test_an_unknown_placement_or_batch_is_not_forecast() -> None:
    fitted = fit_placements(timed("cifar10", ONE_NODE))
    assert fitted.predict(timed("cifar10", [11]).drop("value")).is_empty()
    other = timed("cifar10", [2]).drop("value").with_columns(batch_size=8)
    assert fitted.predict(other).is_empty()


def test_no_exchange_is_refused() -> None:
    with pytest.raises(BadInput, match="found no exchange"):
        fit_placements(timed("cifar10", [1]))
