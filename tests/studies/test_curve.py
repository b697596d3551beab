"""Links of curves: only devices that exchange gradients have them."""

import pytest
from pydantic import ValidationError

from studies.curve import Curve


def test_one_device_has_no_links() -> None:
    """Several exchange gradients, and a worker with servers talks to them."""
    fields = {
        "dnn": "resnet18", "framework": "pytorch", "strategy": "all_reduce", "image_size": 64,
        "batch_size": 8, "worker": "emu.avx512.s15", "workers": 1,
    }  # fmt: skip
    alone = Curve.model_validate(fields)
    assert alone.scenario(1, "emulated").link_mbps is None
    assert alone.profiled("emulated") == alone.scenario(1, "emulated")
    linked = Curve.model_validate(fields | {"link_mbps": 500})
    assert linked.scenario(1, "emulated").link_mbps == 500
    assert linked.profiled("emulated") == alone.profiled("emulated")
    for changes in ({"workers": [1, 2]}, {"devices_per_node": 2}):
        with pytest.raises(ValidationError, match="link_mbps: missing, and it has no default"):
            Curve.model_validate(fields | changes)
