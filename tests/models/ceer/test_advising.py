"""Ceer asked for nodes, on a made-up study whose best answers are known."""

import re
from collections.abc import Sequence

import pytest

from forecasting import recommendation
from models.ceer.advising import CeerAdviser
from models.ceer.predictor import Ceer
from models.choice.advice import AdviceRequest
from models.choice.offers import NodeOffer
from networks.operation_graph import GraphOperation, OperationGraph
from tests.models.ceer import study
from tests.models.ceer.study import scenario
from warehouse.records import BadInput

USD_PER_HOUR = {"fast": 1.0, "slow": 0.2}


def graphs(dnn: str, batch_sizes: Sequence[int], image_size: int) -> list[OperationGraph]:
    """The two ReLUs of a made-up DNN, whatever the batch."""
    (relu,) = study.network(scenario(dnn, "slow", 1).workload).operations.to_dicts()
    names = ("type", "inputs", "outputs", "attributes", "input_bytes", "output_bytes")
    operation = GraphOperation("relu", *(relu[name] for name in names))
    both = (operation, operation)
    return [
        OperationGraph(dnn, batch_size, image_size, study.parameters(dnn), both)
        for batch_size in batch_sizes
    ]


@pytest.fixture(scope="module")
def ceer() -> CeerAdviser:
    """Fitted to the made-up study of one and two devices."""
    one = recommendation.adviser("ceer")
    made = one.of(one.system.fit(study.raw_tables()))
    assert isinstance(made, CeerAdviser)
    return CeerAdviser(made.model, graphs)


def question(**changes: object) -> AdviceRequest:
    """90,000 steps of 16 images: an hour on one slow node, which computes 40 ms a step."""
    asked = {"dnn": "g", "image_size": 32, "global_batch": 16, "iterations": 90_000}
    return AdviceRequest.model_validate(asked | {"minimize": "cost"} | changes)


def offers(capacity: int = 2) -> list[NodeOffer]:
    return [
        NodeOffer(node_type=name, usd_per_hour=usd, capacity=capacity)
        for name, usd in USD_PER_HOUR.items()
    ]


@pytest.mark.parametrize(
    ("changes", "choice"),
    [
        ({}, "1 slow@16 on demand"),
        ({"minimize": "time"}, "1 fast@16 on demand"),
        ({"max_hours": 0.5}, "1 fast@16 on demand"),
        ({"minimize": "time", "max_usd_per_hour": 0.5}, "1 slow@16 on demand"),
    ],
)
def test_the_choice_is_the_best_within_limits(
    ceer: CeerAdviser, changes: dict[str, object], choice: str
) -> None:
    found = ceer.advise(question(**changes), offers())
    assert found.choice is not None
    assert found.choice.label == choice
    limited = {"max_hours": 0, "max_usd_per_hour": 1}
    assert len(found.alternatives) == min(
        [limited[name] for name in changes if name in limited], default=3
    )


def test_times_and_costs_are_those_of_the_steps(ceer: CeerAdviser) -> None:
    found = ceer.advise(question(minimize="time"), offers())
    for option in (found.choice, *found.alternatives):
        assert option is not None
        (nodes,) = option.nodes
        step_s = study.step_s("g", nodes.node_type, nodes.count)
        assert option.step_time_s.value == pytest.approx(step_s)
        hours = step_s * 90_000 / 3600
        assert option.time_s.value == pytest.approx(3600 * hours)
        usd_per_hour = USD_PER_HOUR[nodes.node_type] * nodes.count
        assert option.cost_usd.value == pytest.approx(hours * usd_per_hour)
        assert nodes.batch_size * nodes.count == 16


@pytest.mark.parametrize(
    ("changes", "labels"),
    [
        ({}, ["1 fast@16 on demand", "1 slow@16 on demand"]),
        ({"max_usd_per_hour": 0.5}, ["1 slow@16 on demand"]),
        ({"max_hours": 0.1}, []),
    ],
)
def test_the_front_has_what_nothing_within_the_limits_beats(
    ceer: CeerAdviser, changes: dict[str, object], labels: list[str]
) -> None:
    """Two devices of either type take longer than one, and cost twice as much an hour."""
    assert [one.label for one in ceer.front(question(**changes), offers())] == labels


def test_one_of_two_devices_of_a_node_costs_half(ceer: CeerAdviser) -> None:
    """Of nodes with two devices each; one of them does what a node with one does."""
    pairs = [offer.model_copy(update={"devices": 2}) for offer in offers(1)]
    found = ceer.advise(question(), pairs)
    options = [one for one in (found.choice, *found.alternatives) if one is not None]
    assert {option.label for option in options} == {
        "1 slow@16 (1 device(s)) on demand",
        "1 fast@16 (1 device(s)) on demand",
        "1 slow@16 on demand",
        "1 fast@16 on demand",
    }
    for option in options:
        (nodes,) = option.nodes
        step_s = study.step_s("g", nodes.node_type, nodes.devices or 2)
        hourly = USD_PER_HOUR[nodes.node_type] * (nodes.devices or 2) / 2
        assert option.cost_usd.value == pytest.approx(step_s * 90_000 / 3600 * hourly)


def test_nodes_of_several_devices_are_rented_whole_where_there_is_more_than_one(
    ceer: CeerAdviser,
) -> None:
    """Two devices of nodes with three: two thirds of one; of nodes with one, two of them."""
    three = [offer.model_copy(update={"devices": 3}) for offer in offers(1)]
    labels = {one.label for one in ceer.front(question(minimize="time"), three)}
    assert labels == {"1 fast@16 (1 device(s)) on demand", "1 slow@16 (1 device(s)) on demand"}
    rules = ceer.advise(question(), three).policies
    assert rules["most powerful"] is not None
    assert rules["most powerful"].label == "1 fast@16 (2 device(s)) on demand"


def test_rules_of_thumb_stand_beside_it(ceer: CeerAdviser) -> None:
    policies = ceer.advise(question(), offers()).policies
    assert {name: one and one.label for name, one in policies.items()} == {
        "cheapest": "1 slow@16 on demand",
        "most powerful": "2 fast@8 on demand",
    }


def test_what_decides_is_named(ceer: CeerAdviser) -> None:
    found = ceer.advise(question(), offers())
    assert found.searched.startswith("4 offers; decisive against 1 fast: S −$0.1, ")
    sooner = ceer.advise(question(minimize="time"), offers()).searched
    assert re.fullmatch(r"4 offers; decisive against \d \w+: \w+ −[\d.]+ h, .* h", sooner)
    dear = ceer.advise(question(iterations=question().iterations * 10**6), offers()).searched
    assert dear.startswith("4 offers; decisive against 1 fast: S −$1e+05, ")


@pytest.mark.parametrize(
    ("changes", "relaxations"),
    [
        ({"max_hours": 0.1}, ("--max-hours 0.3438",)),
        ({"budget_usd": 0.1}, ("--budget-usd 0.2",)),
        ({"max_hours": 0.1, "budget_usd": 0.1}, ("--max-hours 1 --budget-usd 0.2",)),
        ({"max_hours": 0.5, "budget_usd": 0.3}, ("--max-hours 1", "--budget-usd 0.3438")),
        ({"max_usd_per_hour": 0.1}, ("--max-usd-per-hour 0.2",)),
        ({"max_hours": 0.5, "max_usd_per_hour": 0.5}, ("--max-hours 1", "--max-usd-per-hour 1")),
    ],
)
def test_what_is_in_the_way_is_named(
    ceer: CeerAdviser, changes: dict[str, object], relaxations: tuple[str, ...]
) -> None:
    found = ceer.advise(question(**changes), offers())
    assert (found.choice, found.relaxations) == (None, relaxations)


def test_a_batch_is_divided_evenly(ceer: CeerAdviser) -> None:
    found = ceer.advise(question(global_batch=3), offers())
    assert found.choice is not None
    assert {one.nodes[0].count for one in (found.choice, *found.alternatives)} == {1}


def test_what_cannot_be_asked_is_refused(ceer: CeerAdviser) -> None:
    other = NodeOffer(node_type="new", usd_per_hour=1.0, capacity=1)
    with pytest.raises(BadInput, match=r"'new' has no profiled operations .* fast, slow have"):
        ceer.advise(question(), [other])
    with pytest.raises(BadInput, match="--image-size"):
        ceer.advise(question(image_size=None), offers())
    with pytest.raises(BadInput, match="fits nowhere"):
        ceer.advise(question(), offers(capacity=0))


def test_a_node_type_without_steps_is_refused_before_any_graph_is_made(ceer: CeerAdviser) -> None:
    asked: list[Sequence[int]] = []

    def noted(dnn: str, batch_sizes: Sequence[int], image_size: int) -> list[OperationGraph]:
        asked.append(batch_sizes)
        return graphs(dnn, batch_sizes, image_size)

    noting = CeerAdviser(ceer.model, noted)
    other = NodeOffer(node_type="new", usd_per_hour=1.0, capacity=2)
    with pytest.raises(BadInput, match="'new' has no profiled operations"):
        noting.advise(question(), [*offers(), other])
    assert asked == []
    noting.advise(question(), offers())
    assert asked[0] == [16, 8]


def test_parameters_are_read_again(ceer: CeerAdviser) -> None:
    again = CeerAdviser(Ceer.from_json(ceer.parameters_json()), graphs)
    assert again.advise(question(), offers()) == ceer.advise(question(), offers())


@pytest.mark.exhaustive
def test_pytorch_is_asked_for_its_own_operators() -> None:
    tables = study.raw_tables()
    with pytest.raises(BadInput, match="expected profile runs of all_reduce with pytorch"):
        recommendation.adviser("ceer_pytorch").system.fit(tables)
    written = recommendation.adviser("ceer").system.fit(tables).parameters_json()
    for system, framework in (("ceer", "tensorflow"), ("ceer_pytorch", "pytorch")):
        one = recommendation.adviser(system)
        read = one.of(one.system.load(written, {}))
        assert isinstance(read, CeerAdviser)
        (graph,) = read.extract("small_cnn", [2], 16)
        assert {operation.type.startswith("aten::") for operation in graph.operations} == {
            framework == "pytorch"
        }
