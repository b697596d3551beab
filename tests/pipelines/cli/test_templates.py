"""What `stepcast predict --calibrate` takes."""

import pytest

from pipelines.cli.templates import parse_measured_step
from studies.curve import Curve
from warehouse.records import BadInput

SYNCHRONOUS = Curve.model_validate(
    {
        "dnn": "small_cnn",
        "framework": "pytorch",
        "strategy": "all_reduce",
        "image_size": 32,
        "batch_size": 12,
        "worker": "emu.avx512.s15",
        "link_mbps": 200,
        "workers": [2, 4, 8],
    }
)


def test_a_step_that_was_measured() -> None:
    two_workers = SYNCHRONOUS.model_copy(update={"workers": (2,)})
    step = parse_measured_step("workers=2,step_s=0.41", [SYNCHRONOUS])
    assert step == (two_workers, 0.41)
    # Steps a second are those of all workers.
    assert parse_measured_step("workers=4, steps-per-s=8", [SYNCHRONOUS])[1] == 0.5
    other = parse_measured_step("workers=1,batch_size=4,step_s=0.2", [SYNCHRONOUS])[0]
    assert (other.workers, other.batch_size) == ((1,), 4)
    four_workers = SYNCHRONOUS.model_copy(update={"workers": (4,)})
    assert parse_measured_step("step_s=0.41", [four_workers])[0] == four_workers


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0.41", "expected FIELD=VALUE"),
        ("workers=2,step_s=1,steps_per_s=1", "expected one of"),
        ("workers=2,step_s=0", "step_s: expected a number above 0, found '0'"),
        ("step_s=0.41", "expected the number of workers that was measured"),
        ("workers=2,step_s=1,wokers=3", "wokers"),
    ],
)
def test_what_is_no_measured_step_is_told_in_one_line(text: str, said: str) -> None:
    with pytest.raises(BadInput, match="--calibrate") as caught:
        parse_measured_step(text, [SYNCHRONOUS])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
