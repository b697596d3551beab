"""Workers that step freely, without TensorFlow: a session that does nothing."""

import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median

from profilers.nodes.tf_stepper import FreeStepper


class Session:
    """Runs nothing."""

    def make_callable(self, step: object) -> Callable[[], None]:
        return lambda: None


def test_workers_rest_for_another_while_after_each_step() -> None:
    said: list[dict[str, object]] = []
    stepper = FreeStepper(Session(), None, None, lambda **message: said.append(message))
    stepper.train(rest_s=0.1)
    time.sleep(1)
    stepper.halt()
    deadline = time.monotonic() + 10
    while said[-1]["event"] != "halted" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert said[-1]["event"] == "halted"
    steps = [(int(str(one["start_us"])), int(str(one["end_us"]))) for one in said[:-1]]
    rests_us = [after[0] - before[1] for before, after in pairwise(steps)]
    assert len(rests_us) >= 3
    assert median(rests_us) > 5_000
    assert len(set(rests_us)) > 1
