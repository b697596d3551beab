"""What calls have to do on a device, as columns."""

import pytest

from models.gpu_step.columns import Calls
from models.gpu_step.device import devices
from models.gpu_step.operators import work_of
from models.gpu_step.public_rows import call


@pytest.mark.parametrize(
    ("name", "ghz"),
    [("p100", 1.30), ("v100-sxm2", 1.53), ("a100", 1.41), ("rtx3090", 1.70), ("rtx4090", 2.52)],
)
def test_clocks_are_those_that_vendors_state(name: str, ghz: float) -> None:
    assert devices()[name].clock_hz == pytest.approx(1e9 * ghz, rel=0.01)


def test_groups_of_a_convolution_are_whole_tiles() -> None:
    """Eight channels of a group fill a sixteenth of a tile, of no group a half of a narrow one."""
    images = (32, 64, 28, 28)
    grouped = work_of(call("convolution", [images, (64, 8, 3, 3)], [images]))
    plain = work_of(call("convolution", [(32, 8, 28, 28), (8, 8, 3, 3)], [(32, 8, 28, 28)]))
    columns = Calls([grouped, plain], [devices()["v100"]])
    assert (grouped.batch, grouped.columns, plain.columns) == (8, 8, 8)
    assert columns.whole.tolist() == pytest.approx([16.0, 2.0])


def test_a_faster_clock_feeds_sooner() -> None:
    product = work_of(call("mm", [(4096, 512), (512, 4096)], [(4096, 4096)], "float16"))
    fed_us = {}
    for name in ("rtx3090", "rtx4090"):
        gpu = devices()[name]
        fed_us[name] = Calls([product], [gpu]).shares_us()[0, 0, 5]
        operands_bytes = 32 * 32 * (128 + 128) * 512 * 2
        each_s = operands_bytes / (64 * gpu.clock_hz) / gpu.multiprocessors
        assert fed_us[name] == pytest.approx(1e6 * each_s)
    assert fed_us["rtx4090"] < fed_us["rtx3090"]
