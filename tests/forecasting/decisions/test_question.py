"""How long a job is, told in samples, steps or epochs."""

import pytest

from forecasting.decisions.question import JobQuestion, samples_of
from warehouse.records import BadInput


@pytest.mark.parametrize(
    ("job", "per_step", "samples"),
    [
        ((5000, None, None, None), None, 5000),
        ((None, 100, None, None), 64, 6400),
        ((None, None, 2.5, 1000), None, 2500),
        ((None, None, 0.0001, 10), None, 1),
    ],
)
def test_a_job_has_so_many_samples(
    job: tuple[int | None, int | None, float | None, int | None],
    per_step: int | None,
    samples: int,
) -> None:
    assert samples_of(*job, per_step=per_step) == samples


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ((None, None, None, None), "expected one of --samples, --iterations, --epochs, found none"),
        ((1, 1, None, None), "found --samples and --iterations"),
        ((None, None, 2.0, None), "--epochs and --dataset-samples go together"),
        ((1, None, None, 5), "--epochs and --dataset-samples go together"),
        ((None, 1, None, None), "a step trains more samples on more nodes; give --global-batch"),
    ],
)
def test_a_job_that_is_told_wrongly_is_refused(
    job: tuple[int | None, int | None, float | None, int | None], said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        samples_of(*job, per_step=None)


def test_limits_are_in_seconds_and_dollars() -> None:
    aim = JobQuestion(dnn="alexnet", samples=1, max_hours=2, budget_usd=3, max_usd_per_hour=4).aim
    assert tuple(aim.limits.of(one) for one in ("deadline_s", "budget_usd", "usd_per_hour")) == (
        7200,
        3,
        4,
    )
    assert (aim.minimize, aim.late) == ("cost", 0.1)
