import pytest

from tests.models.runs import scenario
from warehouse.records import Scenario


def test_what_was_added_later_leaves_scenarios_their_ids() -> None:
    asked = scenario(2, servers=2)
    assert "placement" not in asked.canonical_json()
    assert asked.scenario_id == scenario(2, servers=2, placement="round_robin").scenario_id
    assert "cross_traffic" not in asked.canonical_json()
    assert scenario().scenario_id == "f0404bad92a9dccc"


@pytest.mark.parametrize("placement", ["round_robin", "greedy"])
def test_a_scenario_survives_json(placement: str) -> None:
    asked = scenario(2, servers=2, placement=placement)
    again = Scenario.model_validate_json(asked.canonical_json())
    assert again == asked
    assert again.strategy.placement == placement


def test_cross_traffic_is_part_of_a_scenario() -> None:
    shaped = scenario().model_copy(update={"link_mbps": 200.0})
    beside = shaped.model_copy(update={"cross_traffic": 0.3})
    assert beside.scenario_id != shaped.scenario_id
    assert Scenario.model_validate_json(beside.canonical_json()) == beside
    assert "200 Mb/s, 30% cross traffic, W=1" in beside.label
    with pytest.raises(ValueError, match="link_mbps, which is missing"):
        Scenario.model_validate_json(beside.canonical_json().replace("200.0", "null"))


def test_another_placement_is_another_scenario() -> None:
    greedy = scenario(2, servers=2, placement="greedy")
    assert '"placement":"greedy"' in greedy.canonical_json()
    assert greedy.scenario_id != scenario(2, servers=2).scenario_id
