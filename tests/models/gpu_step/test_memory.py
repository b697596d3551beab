"""Peak memory, worked out by hand in blocks of 512 bytes."""

import pytest

from models.gpu_step.device import device_of
from models.gpu_step.memory import Memory, peak_memory
from warehouse.records import Optimizer


def test_activations_of_a_large_batch_exceed_the_optimizers_step() -> None:
    assert peak_memory([512], 10_240, "sgd").allocated_bytes == 10_240
    assert peak_memory([512], 10_240, "adamw").allocated_bytes == 10_240 + 2 * 512


@pytest.mark.parametrize(
    ("optimizer", "copies"), [("sgd", 2), ("momentum", 3), ("adam", 5), ("adamw", 5)]
)
def test_optimizers_keep_state(optimizer: Optimizer, copies: int) -> None:
    """Parameters and gradients; a moment; two moments, and the square root of the second."""
    assert peak_memory([51_200], 0, optimizer).allocated_bytes == copies * 51_200


def test_fits_with_a_twentieth_to_spare() -> None:
    l4 = device_of("l4")
    assert Memory(19 * 2**30).fits(l4)
    assert not Memory(20 * 2**30).fits(l4)


def test_replicas_have_buckets_and_shards_their_part() -> None:
    sizes = [51_200] * 64
    parameters = 64 * 51_200
    whole = peak_memory(sizes, 3 * parameters, "adamw").allocated_bytes
    buckets = peak_memory(sizes, 3 * parameters, "adamw", distributed=True).allocated_bytes
    assert buckets == whole + parameters
    # A quarter of parameters, gradients, state and temporaries; two of 32 units; activations.
    quarter = peak_memory(sizes, 3 * parameters, "adamw", shards=4).allocated_bytes
    assert quarter == 5 * parameters // 4 + 2 * parameters // 32 + 2 * parameters
