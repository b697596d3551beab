"""Forecasts of made-up networks, and refusals that say what to do; each from a real fit."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecasting import embedders
from models.predictddl import training
from networks import kept_graphs
from networks.primitives import PRIMITIVES
from pipelines.service.contracts import Dataset, Forecast, Graph, Node, Nodes, Workload
from pipelines.service.engine import Engine
from pipelines.service.node_selection import NodeSelection, of_cluster, of_types
from profilers.clusters import host_id
from tests.pipelines.service import made_up
from tests.pipelines.service.made_up import LINK_MBPS, NODE_TYPE, convolutions
from tests.pipelines.service.reports import report
from tests.pipelines.service.test_node_selection import cluster
from warehouse.records import NodeGroup, Scenario, Strategy
from warehouse.warehouse import Warehouse

TWO = of_types([Nodes(node_type=NODE_TYPE, count=2)], LINK_MBPS)


def graph(kinds: list[str]) -> Graph:
    """Return a chain of primitives as it is sent."""
    chain = made_up.chain(kinds)
    nodes = [Node.model_validate(vars(node)) for node in chain.nodes]
    return Graph(nodes=nodes, edges=list(chain.edges), parameter_count=chain.parameter_count)


def ask(engine: Engine, *workloads: Workload, nodes: NodeSelection = TWO) -> list[Forecast]:
    """Return what an engine says."""
    return engine.answer(workloads, nodes).forecasts


def reason(engine: Engine, workload: Workload, nodes: NodeSelection = TWO) -> str:
    """Return why an engine refuses."""
    (forecast,) = ask(engine, workload, nodes=nodes)
    assert (forecast.status, forecast.step_time_s) == ("refused", None)
    assert forecast.reason is not None and "\n" not in forecast.reason
    return forecast.reason


def test_a_measured_network_takes_what_it_took(engine: Engine) -> None:
    (forecast,) = ask(engine, Workload(dnn="resnet18", batch_size=8))
    assert forecast.status == "forecast"
    assert forecast.step_time_s == pytest.approx(made_up.step_s("resnet18", 8, 2), rel=0.02)
    assert (
        forecast.low is not None and forecast.high is not None and forecast.step_time_s is not None
    )
    assert forecast.low <= forecast.step_time_s <= forecast.high
    assert forecast.answered_by == "predictddl"
    assert {row["system"] for row in forecast.systems} >= {"predictddl", "log_linear"}


def test_other_training_than_was_measured_is_refused_beside_others(engine: Engine) -> None:
    in_bf16 = Workload.model_validate(
        {"dnn": "resnet18", "batch_size": 8, "precision": "bf16", "optimizer": "AdamW"}
    )
    other, plain = ask(engine, in_bf16, Workload(dnn="resnet18", batch_size=8))
    assert (other.status, plain.status) == ("refused", "forecast")
    assert other.reason is not None
    assert other.reason.endswith("it knows training in float32 by plain SGD, not bfloat16, adamw")
    alone = Workload(dnn="resnet18", batch_size=8, strategy="single")
    assert "single is one device of one node type; several train" in reason(engine, alone)
    one_node = of_types([Nodes(node_type=NODE_TYPE, count=1)], None)
    assert "no torch_compute of resnet18" in reason(engine, alone, one_node)
    compiled = Workload.model_validate({"dnn": "resnet18", "batch_size": 8, "compiled": True})
    assert "compiled: default is of GPUs" in reason(engine, compiled)


def test_an_epoch_is_its_steps(engine: Engine) -> None:
    some, more = (
        Workload(dnn="vgg11", batch_size=8, dataset=Dataset(images=images))
        for images in (16_000, 32_000)
    )
    less, twice = ask(engine, some, more)
    assert less.step_time_s is not None and less.epoch_s is not None
    # Two nodes of eight images: a thousand steps.
    assert less.epoch_s == pytest.approx(1000 * less.step_time_s)
    assert twice.epoch_s == pytest.approx(2 * less.epoch_s)


def test_a_graph_without_a_name_is_forecast_as_networks_like_it(engine: Engine) -> None:
    (forecast,) = ask(engine, Workload(graph=graph(convolutions(30))))
    assert forecast.status == "forecast", forecast.reason
    like = 30 / 18 * made_up.step_s("resnet18", 8, 2)
    assert forecast.step_time_s == pytest.approx(like, rel=0.1)
    (row,) = forecast.systems
    assert (row["system"], row["value"]) == ("predictddl", forecast.step_time_s)


def test_a_hundred_workloads_have_answers_in_their_order(engine: Engine) -> None:
    batches = [batch for batch in range(2, 27) for _ in range(4)]
    forecasts = ask(engine, *(Workload(dnn="vgg19", batch_size=batch) for batch in batches))
    steps = [forecast.step_time_s or 0.0 for forecast in forecasts]
    assert len(steps) == 100
    assert steps == sorted(steps) and steps[0] < steps[-1]


@pytest.mark.parametrize(
    ("kinds", "edges", "said"),
    [
        (["conv", "conv"], [(0, 1), (1, 0)], "edge 1 → 0: expected places of 2 nodes"),
        (["conv"], [(0, 0)], "edge 0 → 0"),
        (["conv"], [(0, 7)], "edge 0 → 7"),
        (["conv", "convolution"], [], "node 1: no primitive 'convolution'; there are input"),
    ],
)
def test_what_is_no_graph_is_refused(
    engine: Engine, kinds: list[str], edges: list[tuple[int, int]], said: str
) -> None:
    nodes = [Node(type=kind) for kind in kinds]
    sent = Graph(nodes=nodes, edges=edges, parameter_count=0)
    assert said in reason(engine, Workload(graph=sent))


def test_the_largest_graph_with_the_largest_figures_has_an_answer(engine: Engine) -> None:
    node = Node(type="conv", parameters=10**12, flops=1e18, output_elements=10**12, kernel=10**6)
    sent = Graph(
        nodes=[node] * 5000, edges=[(i, i + 1) for i in range(4999)], parameter_count=10**12
    )
    (forecast,) = ask(engine, Workload(graph=sent, batch_size=10**6))
    assert forecast.status in ("forecast", "refused")


@given(
    st.lists(st.sampled_from([*PRIMITIVES, "convolution"]), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=4),
    st.sampled_from([4, 8, 10**6]),
)
def test_whatever_graph_is_sent_has_an_answer(
    engine: Engine, kinds: list[str], edges: list[tuple[int, int]], batch_size: int
) -> None:
    nodes = [Node(type=kind, parameters=10, flops=1e6, output_elements=100) for kind in kinds]
    sent = Graph(nodes=nodes, edges=edges, parameter_count=10)
    (forecast,) = ask(engine, Workload(graph=sent, batch_size=batch_size))
    assert (forecast.status == "refused") == bool(forecast.reason)


def test_nodes_without_an_inventory_are_refused(engine: Engine) -> None:
    nodes = of_types([Nodes(node_type="emu.avx512.s15", count=1)], None)
    refusal = reason(engine, Workload(dnn="vgg11"), nodes)
    assert "nobody has measured what nodes of type emu.avx512.s15 can do" in refusal
    assert "probe inventory" in refusal


def test_networks_that_cannot_be_are_refused(engine: Engine) -> None:
    assert "needs images of at least" in reason(engine, Workload(dnn="vgg11", image_size=8))
    assert "unknown DNN" in reason(engine, Workload(dnn="nosuchnet"))


def test_nodes_with_a_gpu_take_what_was_measured_on_their_type(engine: Engine) -> None:
    """However busy their processors are."""
    node = report(node_type=NODE_TYPE, gpus=1, utilisation=0.5)
    load = Workload(dnn="vgg11", batch_size=8)
    assert ask(engine, load, nodes=of_cluster(cluster(node, node), LINK_MBPS)) == ask(engine, load)


def test_an_epoch_of_several_gpus_a_node_is_of_all_their_images(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = of_cluster(cluster(report(node_type=NODE_TYPE, gpus=2)), None)
    load = Workload(dnn="vgg11", batch_size=8, dataset=Dataset(images=16_000))
    each = Strategy(kind="all_reduce", workers=1, devices_per_node=2)
    alone = made_up.scenario

    def on_two(dnn: str, batch_size: int, workers: int) -> Scenario:
        scenario = alone(dnn, batch_size, workers)
        return scenario.model_copy(update={"strategy": each}) if workers == 1 else scenario

    monkeypatch.setattr(made_up, "scenario", on_two)
    made_up.install(home, monkeypatch)
    (forecast,) = ask(Engine(Warehouse(home)), load, nodes=nodes)
    assert forecast.step_time_s is not None, forecast.reason
    # Sixteen images a step.
    assert forecast.epoch_s == pytest.approx(1000 * forecast.step_time_s)


def test_another_type_of_dataset_has_forecasts_by_its_own_embedder(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up.install(home, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(training, "IMAGES", 4)
        patch.setattr(training, "META_BATCH", 1)
        embedders.train("pairs", minutes=0.005)
    sent = graph(convolutions(30))
    loads = [Workload(graph=sent, dataset=Dataset(type=name)) for name in ("digits", "pairs")]
    forecasts = ask(Engine(Warehouse(home)), *loads)
    assert [forecast.status for forecast in forecasts] == ["forecast"] * 2
    first, second = (forecast.systems[0]["fit_id"] for forecast in forecasts)
    assert first != second


def test_registered_nodes_that_are_half_busy_take_longer(engine: Engine) -> None:
    idle, busy = (
        ask(engine, Workload(dnn="vgg19"), nodes=of_cluster(cluster(node, node), None))[0]
        for node in (report(node_type=NODE_TYPE), report(node_type=NODE_TYPE, utilisation=0.5))
    )
    assert idle.step_time_s is not None and busy.step_time_s is not None
    assert busy.step_time_s > 1.2 * idle.step_time_s


def test_it_is_fitted_again_when_the_history_has_more_runs(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(Warehouse(home))
    assert "nothing has been profiled" in reason(engine, Workload(dnn="vgg11"))
    made_up.install(home, monkeypatch)
    (forecast,) = ask(engine, Workload(dnn="vgg11"))
    assert forecast.status == "forecast"


def test_networks_that_nobody_measured_are_traced_by_one_child(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []

    @contextmanager
    def told(_: str, arguments: list[str], sharing: int) -> Iterator[Callable[[], list[str]]]:
        calls.append(arguments)
        yield lambda: [made_up.chain(convolutions(12), "anything").to_json()] * 2

    monkeypatch.setattr(kept_graphs, "extracting", told)
    forecasts = ask(engine, *(Workload(dnn=dnn, image_size=40) for dnn in ("small_cnn", "vgg11")))
    assert calls == [["primitives", "small_cnn:40", "vgg11:40"]]
    assert [forecast.status for forecast in forecasts] == ["forecast"] * 2


H100 = NodeGroup(role="worker", node_type="gpu.h100", count=1)


def install_beside_newer_gpu_steps(home: Path, patch: pytest.MonkeyPatch) -> None:
    """Fill a home, and add newer steps of another host on a GPU."""
    made_up.install(home, patch)
    of = made_up.scenario("vgg11", 8, 1).model_copy(update={"nodes": (H100,), "link_mbps": None})
    made_up.add(home, "torch_throughput", of, "host-2", backend="loopback")


def test_a_newer_run_elsewhere_hides_no_node_type(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_beside_newer_gpu_steps(home, monkeypatch)
    engine = Engine(Warehouse(home))
    answer = engine.answer([Workload(dnn="vgg11")], TWO)
    assert [forecast.status for forecast in answer.forecasts] == ["forecast"]
    assert (answer.backend, answer.host_id) == ("emulated", "host-1")
    gpus = [Nodes(node_type="gpu.h100", count=1)]
    answer = engine.answer([Workload(dnn="vgg11")], of_types(gpus, None))
    assert (answer.backend, answer.host_id) == ("loopback", "host-2")
    nodes = of_types([*gpus, Nodes(node_type=NODE_TYPE, count=2)], LINK_MBPS)
    refusal = reason(engine, Workload(dnn="vgg11"), nodes)
    assert "gpu.h100 was profiled on another host; --backend loopback --host host-2" in refusal


def test_newer_steps_on_gpus_tell_nothing_of_registered_processors(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_beside_newer_gpu_steps(home, monkeypatch)
    nodes = of_cluster(cluster(report(node_type=NODE_TYPE, link_mbps=None)), None)
    answer = Engine(Warehouse(home)).answer([Workload(dnn="vgg11")], nodes)
    assert ([forecast.status for forecast in answer.forecasts], answer.host_id) == (
        ["forecast"],
        "host-1",
    )


def test_a_host_that_is_known_by_its_inventory_is_forecast_from_steps_of_another(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up.install(home, monkeypatch)
    this_host = host_id("emulated")
    made_up.add(home, "inventory", None, this_host)
    answer = Engine(Warehouse(home)).answer([Workload(dnn="vgg11", batch_size=8)], TWO)
    (forecast,) = answer.forecasts
    assert (forecast.status, answer.host_id) == ("forecast", this_host)
    assert forecast.step_time_s == pytest.approx(made_up.step_s("vgg11", 8, 2), rel=0.02)
    assert forecast.low is not None
    assert forecast.high is not None
    assert forecast.low < forecast.step_time_s < forecast.high  # type: ignore[operator]


@pytest.mark.parametrize("link_mbps", [1e-300, 120.0, 4000.0, 1e9])
def test_links_far_from_those_of_measured_steps_are_refused(
    engine: Engine, link_mbps: float
) -> None:
    nodes = [Nodes(node_type=NODE_TYPE, count=2)]
    for near in (LINK_MBPS / 2, 2 * LINK_MBPS):
        (forecast,) = ask(engine, Workload(dnn="vgg11"), nodes=of_types(nodes, near))
        assert forecast.status == "forecast"
    refusal = reason(engine, Workload(dnn="vgg11"), of_types(nodes, link_mbps))
    assert "Mb/s of links, where steps were measured from 500 to 500" in refusal
