"""From all profile runs of a study to step times: closed forms, and what was never profiled."""

import polars as pl
import pytest

from models.srift.exchange import Buckets
from models.srift.parameters import Settings
from models.srift.predictor import Srift, fit
from models.srift.profiles import NetworkKey
from tests.models.srift import study
from tests.models.srift.study import LAYERS, SPEEDS_MBPS, group, scenario, seconds
from warehouse.records import BadInput, Scenario, Strategy, TrainingWorkload

EXACT = Settings(
    bandwidth="alpha_beta", buckets=None, streams=None, slowdown=False, model_error=0.0
)


@pytest.fixture(scope="module")
def exact() -> Srift:
    """Return the formula, which these all-reduces obey, and ideal overlap."""
    return fit(study.tables(), EXACT)


def step_s(model: Srift, scenario: Scenario) -> float:
    """Return the forecast of one scenario."""
    (value,) = model.predict([scenario])["value"]
    return float(value)


@pytest.mark.parametrize("dnn", LAYERS)
@pytest.mark.parametrize("link_mbps", SPEEDS_MBPS)
@pytest.mark.parametrize("workers", [2, 5])
def test_an_iteration_by_hand(exact: Srift, dnn: str, link_mbps: float, workers: int) -> None:
    """8 samples: 0.08 s forward, 0.16 s backward; the second layer starts halfway, then the first.

    Sizes are powers of two, and no two transfers together get more than the link carries.
    """
    first, second = (seconds(workers, size, link_mbps) for size in LAYERS[dnn])
    second_end = 0.08 + second
    assert second_end <= 0.16 or dnn == "alexnet"
    value_s = step_s(exact, scenario(group("fast", workers), dnn=dnn, link_mbps=link_mbps))
    if second_end <= 0.16:
        assert value_s == pytest.approx(0.08 + 0.16 + first + 0.1, rel=1e-6)
    else:
        # Both together are never done before what they move has crossed the link.
        wire = sum(LAYERS[dnn]) * 2 * (workers - 1) / workers / (link_mbps * 1e6 / 8)
        assert value_s >= 0.08 + 0.08 + wire + 0.1


def test_the_slowest_of_a_mix_counts_with_its_own_batch(exact: Srift) -> None:
    even = scenario(group("fast", 2), group("slow"))
    uneven = scenario(group("fast", 2), group("slow", batch_size=4))
    ring_s = seconds(3, LAYERS["small_cnn"][0], 200.0)
    assert step_s(exact, even) == pytest.approx(8 * 0.06 + ring_s + 0.1, rel=1e-6)
    assert step_s(exact, uneven) == pytest.approx(8 * 0.03 + ring_s + 0.1, rel=1e-6)


def test_slowdown_and_buckets_as_measured_and_as_pytorch() -> None:
    slowed = fit(study.tables(), EXACT.model_copy(update={"slowdown": True, "buckets": Buckets()}))
    slow = {
        network.dnn: (network.slowdown, network.hindrance) for network in slowed.parameters.networks
    }
    assert slow == dict.fromkeys(("small_cnn", "alexnet"), (study.SLOWDOWN, study.HINDRANCE))
    performance = slowed.performance(NetworkKey("small_cnn", 64), 200.0)
    assert (performance.slowdown, performance.hindrance) == (study.SLOWDOWN, study.HINDRANCE)
    sizes = performance.transfers("fast").size_bytes.tolist()
    assert sizes == [*LAYERS["small_cnn"][::-1], 1]
    four_nodes = scenario(group("fast", 4))
    plain = fit(study.tables(), EXACT)
    assert step_s(slowed, four_nodes) > step_s(plain, four_nodes)


def test_only_the_measured_share_of_scatter_is_straggling() -> None:
    tables = study.tables()
    late = pl.col("forward_s") + 0.1
    again = tables["compute"].with_columns(forward_s=late, trial=1 + pl.col("trial"))
    tables["compute"] = pl.concat([tables["compute"], again])
    whole = fit(tables, EXACT)
    part = fit(tables, EXACT.model_copy(update={"slowdown": True}))
    scales = [
        model.performance(NetworkKey("small_cnn", 64), 200.0).node("fast").latency.scale(8)
        for model in (whole, part)
    ]
    assert scales[1] == pytest.approx(study.SHARE * scales[0])
    assert scales[0] > 0


def unprofiled() -> dict[str, Scenario]:
    """Return scenarios that cannot be predicted, by what is said of them."""
    redefined = group("fast", 2).model_copy(update={"cpu_share": 0.5})
    servers = Scenario(
        workload=TrainingWorkload(dnn="small_cnn", image_size=64, batch_size=8),
        strategy=Strategy(workers=1),
        nodes=(group("fast"), group("fast").model_copy(update={"role": "server"})),
        link_mbps=200.0,
    )
    return {
        "vgg11 at 64 px has no compute profile, only alexnet at 64 px": scenario(
            group("fast"), dnn="vgg11"
        ),
        "links of 300 Mb/s were not probed, only 200 Mb/s, 400 Mb/s": scenario(
            group("fast"), link_mbps=300.0
        ),
        "node type 'other' has no compute profile of this network; profiled are fast, slow": (
            scenario(group("other", 2))
        ),
        "node type 'fast' was profiled with another definition": scenario(redefined),
        "srift predicts all_reduce only": servers,
    }


@pytest.mark.parametrize("message", unprofiled())
def test_what_was_never_profiled_is_refused(exact: Srift, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        exact.predict([unprofiled()[message]])


def alone_s(batch_size: int, node_type: str = "fast") -> float:
    """Return what the profile of the made-up study says of a step of one node."""
    return batch_size * 3 * study.SECONDS[node_type] + 0.1


def test_ratios_of_one_node_count_as_their_geometric_mean() -> None:
    steps = (
        (scenario(group("fast"), dnn="alexnet"), 1.1 * alone_s(8)),
        (scenario(group("slow", batch_size=4), dnn="alexnet"), 1.1 * 1.1 * alone_s(4, "slow")),
        (scenario(group("fast", 4)), 99.0),
    )
    paced_model = fit(study.tables(*steps), EXACT)
    assert paced_model.parameters.pace == pytest.approx(1.1**1.5)
    slow = scenario(group("slow"))
    (plain,), (paced,) = (
        model.predict([slow])["value"] for model in (fit(study.tables(), EXACT), paced_model)
    )
    assert paced == pytest.approx(1.1**1.5 * plain)
