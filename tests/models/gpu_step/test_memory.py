"""Peak memory, worked out by hand in blocks of 512 bytes, and as PyTorch itself tracks it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from models.gpu_step.device import devices
from models.gpu_step.memory import Memory, peak_memory
from networks.gpu_steps import GpuStep, Tensor, step_precision
from networks.gpu_trace import trace_step
from tests.models.gpu_step.blocks import Block
from warehouse.records import Optimizer


def step(activation_bytes: int, *units: int) -> GpuStep:
    """Return a step of units of so many parameters each, all of which are alive at the peak."""
    parameters_bytes = 4 * sum(units)
    return GpuStep(
        operators=(),
        order=(),
        parameters=tuple(Tensor((size,), "float32") for size in units),
        peak_bytes=2 * parameters_bytes + activation_bytes,
        without_gradients_bytes=parameters_bytes + activation_bytes,
        activation_bytes=activation_bytes,
        units=(0, *units),
    )


def test_activations_of_a_large_batch_exceed_the_optimizers_step() -> None:
    large = step(10_240, 128)
    assert peak_memory(large, "sgd").allocated_bytes == 2 * 512 + 10_240
    assert peak_memory(large, "adamw").allocated_bytes == 4 * 512 + 10_240


@pytest.mark.parametrize(
    ("optimizer", "copies"), [("sgd", 2), ("momentum", 3), ("adam", 5), ("adamw", 5)]
)
def test_optimizers_keep_state(optimizer: Optimizer, copies: int) -> None:
    """Parameters and gradients; a moment; two moments, and the square root of the second."""
    assert peak_memory(step(0, 12_800), optimizer).allocated_bytes == copies * 51_200


def test_eight_bit_moments_have_a_byte_each_and_a_scale_a_block() -> None:
    """Of a large one 2 x (1 + 4/256) bytes; small ones have 2 x 4, as without quantization."""
    large = 2 * 256 * 1024
    state = 2 * (large + 4 * large // 256) + 2 * 4 * 128
    needed = peak_memory(step(0, large, 128), "adamw_8bit").allocated_bytes
    assert needed == 2 * 4 * (large + 128) + state


def test_fits_with_a_twentieth_to_spare() -> None:
    l4 = devices()["l4"]
    assert Memory(0, 18 * 2**30, 0).fits(l4)
    assert not Memory(0, 19 * 2**30, 0).fits(l4)


def test_the_largest_batch_fits_and_one_more_does_not() -> None:
    l4 = devices()["l4"]
    of_eight = Memory(2**30, 2**30, 0)
    largest = of_eight.largest_batch_size(l4, 8)
    assert Memory(2**30, 2**27 * largest, 0).fits(l4)
    assert not Memory(2**30, 2**27 * (largest + 1), 0).fits(l4)
    # No batch helps where the optimizer alone needs more.
    assert Memory(2**30, 2**30, 23 * 2**30).largest_batch_size(l4, 8) == 0


def test_the_second_pass_has_all_gradients_beside_its_activations() -> None:
    """Gradients of one pass come as activations go, so that they are not there at the peak."""
    held = Tensor((25_600,), "float32")
    one_pass = GpuStep((), (), (held,), 300_000, 300_000, 300_000 - 102_400, (0, 25_600))
    assert peak_memory(one_pass, "sgd").allocated_bytes == 300_000
    assert peak_memory(one_pass, "sgd", accumulate=8).allocated_bytes == 300_000 + 102_400


def test_replicas_have_buckets_and_shards_their_part() -> None:
    parameters_bytes = 64 * 51_200
    network = step(2 * parameters_bytes, *[12_800] * 64)
    whole = peak_memory(network, "adamw").allocated_bytes
    buckets = peak_memory(network, "adamw", distributed=True).allocated_bytes
    assert buckets == whole + parameters_bytes
    # A quarter of parameters and state, four copies of a unit; gradients come as activations go.
    quarter = peak_memory(network, "adamw", shards=4).allocated_bytes
    assert quarter == 3 * parameters_bytes // 4 + 4 * 51_200 + 2 * parameters_bytes
    half = peak_memory(network, "adamw", "bfloat16", shards=4).allocated_bytes
    assert half == quarter - 2 * 51_200


class _Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(512, 2048), torch.nn.Linear(2048, 512)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return given + torch.as_tensor(self.outer(torch.relu(self.inner(given))))


class _Network(torch.nn.Module):
    """Half of the parameters of a unit are in none: of an embedding, and of what reads it."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(1024, 512)
        self.layers = torch.nn.ModuleList(_Layer() for _ in range(layers))
        self.head = torch.nn.Linear(512, 1024, bias=False)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(words)
        for layer in self.layers:
            hidden = layer(hidden)
        return torch.as_tensor(self.head(hidden)).flatten(0, 1)


def test_activations_of_a_transformer_are_what_its_authors_count() -> None:
    """Korthikanti et al. (2022), equation 2 without dropout: 32 bytes of each word and feature.

    So a GPT of 13 billion (40 layers of 5,120) has 12.5 GiB at 2,048 words, however it is sharded.
    """
    layers, length, hidden = 12, 256, 128
    with FakeTensorMode(allow_non_fake_inputs=True):
        network = torch.nn.Sequential(
            torch.nn.Embedding(64, hidden), *(Block(hidden) for _ in range(layers))
        )
        head = torch.nn.Sequential(network, torch.nn.Linear(hidden, 64), torch.nn.Flatten(0, 1))
        labels, words = (torch.zeros(length, dtype=torch.int64) for _ in range(2))
        traced = GpuStep.of(trace_step(head, words.view(1, length), labels, "bfloat16-true"))
    each = traced.activation_bytes / (layers * length * hidden)
    assert each == pytest.approx(32, rel=0.1)


class _Masked(torch.nn.Module):
    """Layers of attention with two heads, of whose words each sees those that a mask lets it."""

    mask: torch.Tensor

    def __init__(self, mask: torch.Tensor, layers: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(layers))
        self.register_buffer("mask", mask)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            heads = layer(given).unflatten(-1, (2, 16)).transpose(1, 2)
            seen = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, self.mask)
            given = given + seen.transpose(1, 2).flatten(2)
        return given.flatten(0, 1)


class _Tied(torch.nn.Module):
    """Words are looked up in the table by which they are told, whose two gradients are added."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.table, self.inner = torch.nn.Embedding(words, 32), torch.nn.Linear(32, 32)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return (self.inner(self.table(words)) @ self.table.weight.T).flatten(0, 1)


LONG, SOME = 1024, 64
MASKS = {
    "each word's": lambda: torch.ones(2, 1, LONG, LONG, dtype=torch.bool).tril(),
    "of all heads": lambda: torch.ones(2, 1, LONG, LONG, dtype=torch.bool).expand(2, 2, LONG, LONG),
    "padding": lambda: torch.ones(2, 1, 1, LONG, dtype=torch.bool),
    "added": lambda: torch.zeros(2, 1, LONG, LONG),
}


@pytest.mark.parametrize("what", [*MASKS, "tied table"])
def test_long_masks_and_large_tables_need_what_pytorch_itself_tracks(what: str) -> None:
    from torch.distributed._tools.mem_tracker import MemTracker

    is_masked, labels = what in MASKS, torch.zeros(2 * LONG, dtype=torch.int64)
    with FakeTensorMode(allow_non_fake_inputs=True):

        def made() -> torch.nn.Module:
            return _Masked(MASKS[what](), 4) if is_masked else _Tied(200 * SOME)

        given = torch.zeros(2, LONG, 32) if is_masked else torch.zeros(2, SOME, dtype=torch.int64)
        labels = labels[: given[..., 0].numel() if is_masked else given.numel()]
        traced = GpuStep.of(trace_step(made(), given, labels))
        network = made()
        tracker = MemTracker()
        tracker.track_external(network, given, labels)
        with tracker:
            torch.nn.functional.cross_entropy(network(given), labels).backward()
        tracked = next(iter(tracker.get_tracker_snapshot("peak").values()))
    assert traced.peak_bytes == pytest.approx(tracked["Total"], rel=0.05)


@pytest.fixture
def world_of_64() -> Iterator[DeviceMesh]:
    """A group whose other 63 processes are not there: what they send is not waited for."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", rank=0, world_size=64, store=FakeStore())
    yield init_device_mesh("cpu", (64,))
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("words", [16, 2048])
def test_shards_need_what_pytorch_itself_tracks(
    world_of_64: DeviceMesh, words: int, precision: Literal["float32", "bfloat16"]
) -> None:
    """Forward and backward of 12 layers on one of 64 devices, tracked while PyTorch shards them."""
    from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    labels = torch.zeros(words, dtype=torch.int64)
    with FakeTensorMode(allow_non_fake_inputs=True):
        given = torch.zeros(1, words, dtype=torch.int64)
        as_traced = step_precision(precision, casts_once=True)
        traced = GpuStep.of(trace_step(_Network(12), given, labels, as_traced))
        network = _Network(12)
        cast = MixedPrecisionPolicy(None if precision == "float32" else torch.bfloat16)
        for part in (*network.layers, network):
            fully_shard(part, mesh=world_of_64, mp_policy=cast)
        tracker = FSDPMemTracker(network)
        with tracker:
            loss = torch.nn.functional.cross_entropy(network(given).float(), labels)
            loss.backward()
        tracked = next(iter(tracker.get_tracker_snapshot("peak").values()))
    needed = peak_memory(traced, "sgd", precision, shards=64)
    assert needed.allocated_bytes == pytest.approx(tracked["Total"], rel=0.1)


def test_frozen_parameters_have_no_gradients_state_or_temporary_copies() -> None:
    frozen = (Tensor((12_800,), "bfloat16"),) * 3
    adapted = replace(step(0, 128), frozen=frozen, peak_bytes=2 * 512 + 3 * 25_600)
    needed = peak_memory(adapted, "adamw")
    assert needed.allocated_bytes == 5 * 512 + 3 * 25_600
    assert peak_memory(adapted, "adamw", shards=4).optimizer_bytes == needed.allocated_bytes // 4


def test_state_and_gradients_have_the_type_of_parameters() -> None:
    half = GpuStep((), (), (Tensor((25_600,), "bfloat16"),), 102_400, 51_200, 0, (0, 25_600))
    assert peak_memory(half, "adamw").allocated_bytes == 5 * 51_200
