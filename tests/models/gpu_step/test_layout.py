"""Networks divided among GPUs: work and memory of each, and how stages wait, in closed form."""

from collections import Counter
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from models.gpu_step.collectives import TIMED, Collectives, Topology, fit
from models.gpu_step.layout import Blocks, Layout, blocks_of, divided
from models.gpu_step.memory import peak_memory
from models.gpu_step.operators import PRODUCTS, work_of
from models.gpu_step.parallel_steps import AloneStep, Parallel, together
from models.gpu_step.queues import Step
from models.system import NotCovered
from networks.gpu_steps import GpuStep, Operator, Tensor
from warehouse.records import Strategy

WORDS, WIDTH, HEADS, VOCABULARY, LAYERS = 64, 128, 8, 1024, 8
LINKS = Topology(8, 1, 300e9, 50e9)

USUAL = fit(pl.DataFrame(schema=TIMED))


class Second(Collectives):
    """Collectives that take a second each."""

    def seconds(self, collective: str, sizes_bytes: object, topology: Topology) -> object:  # type: ignore[override]
        each_s = 1.0 if collective == "all_reduce" else 0.5
        return np.full(len(sizes_bytes), each_s * (topology.ranks > 1))  # type: ignore[arg-type]


def tensor(*shape: int, dtype: str = "bfloat16") -> Tensor:
    return Tensor(shape, dtype)


def product(rows: int, inner: int, columns: int) -> Operator:
    return Operator("mm", (tensor(rows, inner), tensor(inner, columns)), (tensor(rows, columns),))


def transformer(layers: int = LAYERS) -> GpuStep:
    """Return forward of an embedding, layers and a head, and attention's backward."""
    query = tensor(1, HEADS, WORDS, WIDTH // HEADS)
    stream = tensor(1, WORDS, WIDTH)
    attention = "_scaled_dot_product_flash_attention"
    in_layer = (
        Operator("native_layer_norm", (stream, tensor(WIDTH)), (stream,)),
        product(WORDS, WIDTH, 3 * WIDTH),
        Operator(attention, (query, query, query), (query,)),
        product(WORDS, WIDTH, WIDTH),
        product(WORDS, WIDTH, 4 * WIDTH),
        product(WORDS, 4 * WIDTH, WIDTH),
        Operator(f"{attention}_backward", (query,) * 4, (query,) * 3),
    )
    words = tensor(1, WORDS, dtype="int64")
    root = (
        Operator("embedding", (tensor(VOCABULARY, WIDTH), words), (stream,)),
        product(WORDS, WIDTH, VOCABULARY),
    )
    order = (0, *tuple(range(2, 2 + len(in_layer))) * layers, 1)
    of_layer = 12 * WIDTH * WIDTH
    parameters = [tensor(VOCABULARY * WIDTH, dtype="float32")] * 2
    parameters[1:1] = [tensor(of_layer, dtype="float32")] * layers
    logits_bytes = 2 * WORDS * VOCABULARY
    return GpuStep(
        (*root, *in_layer),
        order,
        tuple(parameters),
        0,
        0,
        layers * 34 * WORDS * WIDTH + logits_bytes,
        (2 * VOCABULARY * WIDTH, *(of_layer,) * layers),
    )


def flops(step: GpuStep) -> float:
    works = [work_of(operator) for operator in step.operators]
    calls = Counter(step.order)
    return sum(calls[n] * work.flops for n, work in enumerate(works) if work.kind in PRODUCTS)


def head_flops() -> float:
    return work_of(product(WORDS, WIDTH, VOCABULARY)).flops


def test_tensor_ranks_have_equal_parts_of_all_products() -> None:
    whole = transformer()
    part = divided(whole, Layout(tensor=4), blocks_of(whole))
    assert 4 * flops(part) == flops(whole)
    assert part.order == whole.order
    assert 4 * sum(each.numbers for each in part.parameters) == sum(
        each.numbers for each in whole.parameters
    )
    assert 4 * Layout(tensor=4).activation_bytes(blocks_of(whole)) == whole.activation_bytes
    widths = [operator.outputs[0].shape for operator in part.operators if operator.name == "mm"]
    assert (WORDS, 4 * WIDTH // 4) in widths  # columns, of what goes up
    assert (WORDS, WIDTH) in widths  # what is summed up, of what comes down


def test_the_last_stage_has_its_layers_and_the_head() -> None:
    whole = transformer()
    stage = divided(whole, Layout(stages=4), blocks_of(whole))
    assert flops(stage) == (flops(whole) - head_flops()) / 4 + head_flops()
    assert len(stage.parameters) == LAYERS // 4 + 1  # of two that are in no layer, one
    uneven = divided(whole, Layout(stages=3), blocks_of(whole))
    assert Counter(uneven.order)[2] == 3


def test_layers_of_two_kinds_are_divided_in_turn() -> None:
    whole = transformer()
    order = [each if place % 2 else 3 for place, each in enumerate(whole.order)]
    kinds = GpuStep(**{**vars(whole), "order": (*order, *(2,) * 4)})
    stage = divided(kinds, Layout(stages=2), blocks_of(whole))
    assert Counter(stage.order)[2] == Counter(kinds.order)[2] // 2


def test_compiled_layers_are_divided_as_the_eager_step_has_them() -> None:
    """Fused kernels have no embedding, of which layers are told; activations are kept, or not."""
    whole = transformer()
    operators = [
        replace(each, name="fused" if each.name.endswith("embedding") else each.name)
        for each in whole.operators
    ]
    fused = replace(whole, operators=tuple(operators))
    stage = divided(replace(fused, kept=fused), Layout(stages=4), blocks_of(whole))
    assert stage.kept is not None and stage.kept.order == stage.order


def test_the_first_stage_keeps_as_much_as_one_of_no_pipeline() -> None:
    """Korthikanti et al., 2022, section 4.2.3: L layers' worth; interleaved a little more."""
    network = blocks_of(transformer())
    assert network.layer_bytes == 34 * WORDS * WIDTH
    of_layers = LAYERS * network.layer_bytes

    def kept(layout: Layout) -> int:
        return layout.activation_bytes(network)

    assert kept(Layout(stages=4, micro_batches=8)) == of_layers
    assert kept(Layout(tensor=2, stages=4, micro_batches=8)) == of_layers / 2
    virtual = Layout(stages=4, virtual_stages=2, micro_batches=8)
    assert kept(virtual) == int(of_layers * (1 + 3 / (4 * 2)))
    assert kept(Layout(stages=4, micro_batches=2)) == of_layers / 2


def alone(step_us: float) -> AloneStep:
    return AloneStep(Step(step_us, 0.0, step_us))


def seconds(layout: Layout, stage_s: float, whole_s: float, network: Blocks | None) -> float:
    parallel = Parallel(Second(USUAL.within, USUAL.across), 0.0, {})
    micro_batches = layout.micro_batches
    stage, whole = (alone(1e6 * micro_batches * each) for each in (stage_s, whole_s))
    trace = divided(transformer(), layout, blocks_of(transformer()))
    return together(stage, whole, trace, network, layout, "bfloat16", LINKS, parallel).step_s


@pytest.mark.parametrize("virtual_stages", [1, 2])
@pytest.mark.parametrize("micro_batches", [4, 16])
def test_bubbles_have_their_closed_form(virtual_stages: int, micro_batches: int) -> None:
    """Narayanan et al., 2021, sections 2.2.1 and 2.2.2: (p - 1) / (m v) of the ideal time."""
    layout = Layout(stages=4, virtual_stages=virtual_stages, micro_batches=micro_batches)
    network = blocks_of(transformer())
    transfers = 2 * virtual_stages * 0.5  # halves of all-reduces, there and back
    step_s = seconds(layout, 3.0, 12.0, network)
    ideal_s = micro_batches * (3 + transfers)
    assert step_s == pytest.approx(ideal_s * (1 + 3 / (micro_batches * virtual_stages)))


def test_tensor_ranks_wait_for_four_all_reduces_of_each_layer() -> None:
    network = blocks_of(transformer())
    assert seconds(Layout(tensor=4), 3.0, 3.0, network) == 3 + 4 * LAYERS
    again = Blocks(**{**vars(network), "is_checkpointed": True})
    assert seconds(Layout(tensor=4), 3.0, 3.0, again) == 3 + 6 * LAYERS


def test_without_a_layout_nothing_is_divided() -> None:
    whole = transformer()
    assert divided(whole, Layout(replicas=8), blocks_of(whole)) is whole
    assert Layout.of(Strategy(kind="all_reduce", workers=1, devices_per_node=8), 4) == Layout(
        replicas=8, micro_batches=4
    )


@pytest.mark.parametrize(("zero", "gb"), [(0, 120.0), (1, 31.4), (2, 16.6)])
def test_states_are_those_that_zero_prints(zero: int, gb: float) -> None:
    """Rajbhandari et al., SC 2020, figure 1: 7.5e9 parameters, Adam, 64 GPUs."""
    half = 3_750_000_000
    step = GpuStep((), (), (tensor(half, dtype="float32"),) * 2, 0, 0, 0, (0,))
    memory = peak_memory(step, "adam", "float16", shards=64 if zero else 1, zero=zero)
    assert memory.standing_bytes / 1e9 == pytest.approx(gb, abs=0.05)


@pytest.mark.parametrize(
    ("kind", "layout", "shards"),
    [
        ("hsdp", {"devices_per_node": 8}, 8),
        ("hsdp", {"devices_per_node": 8, "tensor_parallel": 2}, 4),
        ("zero1", {"devices_per_node": 8, "pipeline_parallel": 4}, 8),
        ("sharded", {"devices_per_node": 4}, 16),
        ("all_reduce", {"devices_per_node": 8}, 1),
    ],
)
def test_shards_are_divided_among_replicas(kind: str, layout: dict[str, int], shards: int) -> None:
    strategy = Strategy.model_validate({"kind": kind, "workers": 4, **layout})
    of_strategy = Layout.of(strategy, 1)
    assert of_strategy.shards == shards
    assert of_strategy.ranks == 4 * layout["devices_per_node"]
    alone = Layout.of(Strategy(kind="hsdp", workers=2, devices_per_node=8, tensor_parallel=8), 1)
    assert (alone.shards, alone.zero) == (1, 0)  # one GPU of a node has all of its part


def test_replicas_that_fill_no_node_are_of_as_many_nodes_as_they_need() -> None:
    links = Topology(4, 3, 300e9, 50e9)
    six = Layout(stages=2, replicas=6).topology_of(6, links)
    assert (six.devices, six.nodes, six.network_bps) == (3, 2, 50e9 * 3 / 4)


def test_what_cannot_be_divided_is_refused_by_name() -> None:
    whole = transformer()
    network = blocks_of(whole)
    with pytest.raises(NotCovered, match="3 do not divide 8 heads"):
        divided(whole, Layout(tensor=3), network)
    with pytest.raises(NotCovered, match="8 x 2 stages, but it has 8 layers"):
        divided(whole, Layout(stages=8, virtual_stages=2), network)
    experts = Operator("_grouped_mm", (tensor(64, 128), tensor(8, 128, 128)), (tensor(64, 128),))
    of_experts = GpuStep(**{**vars(whole), "operators": (*whole.operators, experts)})
    with pytest.raises(NotCovered, match="experts are not divided"):
        divided(of_experts, Layout(tensor=2), network)
    with pytest.raises(NotCovered, match="of words alone"):
        blocks_of(GpuStep((), (), (), 0, 0, 0, (0,)))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"tensor_parallel": 3}, "a divisor of a node's 8 devices, found 3"),
        ({"pipeline_parallel": 3}, "1 x 3 divides no 16 devices"),
        ({"virtual_stages": 2}, "give pipeline_parallel, too"),
        ({"kind": "zero2", "pipeline_parallel": 2}, "take zero1 or sharded"),
    ],
)
def test_layouts_that_no_ranks_make_are_refused(fields: dict[str, object], problem: str) -> None:
    given = {"kind": "all_reduce", "workers": 2, "devices_per_node": 8, **fields}
    with pytest.raises(ValueError, match=problem):
        Strategy.model_validate(given)
