"""Steps of one node in training, over those of its profile."""

import pytest

from models.predictddl.observations import ObservedStep
from models.srift.parameters import Settings
from models.srift.predictor import fit, training_factor
from tests.models.srift import study
from tests.models.srift.study import group, scenario

EXACT = Settings(
    bandwidth="alpha_beta", buckets=None, streams=None, slowdown=False, model_error=0.0
)


def alone_s(batch_size: int, node_type: str = "fast") -> float:
    """Return what the profile of the made-up study says of a step of one node."""
    return batch_size * 3 * study.SECONDS[node_type] + 0.1


def test_ratios_of_one_node_count_as_their_geometric_mean() -> None:
    steps = (
        (scenario(group("fast"), dnn="alexnet"), 1.1 * alone_s(8)),
        (scenario(group("slow", batch_size=4), dnn="alexnet"), 1.1 * 1.1 * alone_s(4, "slow")),
        (scenario(group("fast", 4)), 99.0),
    )
    found = fit(**study.tables(*steps), settings=EXACT)
    assert found.parameters.pace == pytest.approx(1.1**1.5)
    asked = scenario(group("slow"))
    (plain,), (paced,) = (
        one.predict([asked])["value"] for one in (fit(**study.tables(), settings=EXACT), found)
    )
    assert paced == pytest.approx(1.1**1.5 * plain)


def test_exchanges_keep_theirs() -> None:
    """What data-parallel training adds to a step of one node stays as it was probed."""
    found = fit(**study.tables((scenario(group("fast")), 1.5 * alone_s(8))), settings=EXACT)
    plain = fit(**study.tables(), settings=EXACT)
    added = []
    for model in (plain, found):
        one, four = model.predict([scenario(group("fast")), scenario(group("fast", 4))])["value"]
        added.append(four - one)
    assert added[1] == pytest.approx(added[0], rel=0.05)


def test_what_has_no_profile_says_nothing() -> None:
    networks = fit(**study.tables(), settings=EXACT).parameters.networks
    unknown = [
        ObservedStep(scenario(group("fast"), dnn="vgg11"), 1.0),
        ObservedStep(scenario(group("other")), 1.0),
    ]
    assert training_factor(unknown, networks) == 1
    assert training_factor([], networks) == 1
