"""Peak memory, worked out by hand in blocks of 512 bytes."""

import pytest

from models.gpu_step.device import device_of
from models.gpu_step.memory import Memory, Storage, peak_memory, rounded


def test_blocks() -> None:
    assert [rounded(size) for size in (0, 1, 512, 513)] == [0, 512, 512, 1024]


def test_activations_that_live_at_once() -> None:
    """The first two overlap, the third begins when the first has ended."""
    storages = [Storage(1024, 0, 3), Storage(2048, 1, 5), Storage(512, 4, 5)]
    assert peak_memory([512], 0, storages, "sgd").allocated_bytes == 512 + 1024 + 2048


@pytest.mark.parametrize(
    ("optimizer", "copies"), [("sgd", 2), ("momentum", 3), ("adam", 5), ("adamw", 5)]
)
def test_optimizers_keep_state(optimizer: str, copies: int) -> None:
    """Parameters and gradients; a moment; two moments, and the square root of the second."""
    memory = peak_memory([51200], 0, [], optimizer)  # type: ignore[arg-type]
    assert memory.allocated_bytes == copies * 51200


def test_fits_with_a_twentieth_to_spare() -> None:
    l4 = device_of("l4")
    assert Memory(20 * 2**30, 0, 0).fits(l4)
    assert not Memory(22 * 2**30, 0, 0).fits(l4)
