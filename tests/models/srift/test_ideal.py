"""Linear scaling of synchronous training: the slowest node alone, whatever the number of nodes."""

import pytest

from models.srift import ideal
from tests.models.srift import study
from tests.models.srift.study import group, scenario
from warehouse.records import BadInput, Scenario


@pytest.fixture(scope="module")
def model() -> ideal.IdealScaling:
    """Return the baseline, fitted to the made-up study."""
    return ideal.fit(study.tables())


def test_an_iteration_is_that_of_the_slowest_node(model: ideal.IdealScaling) -> None:
    """8 samples take 3 x 0.01 s each on the fast type and twice that on the slow, plus 0.1 s."""
    scenarios = [
        scenario(group("fast")),
        scenario(group("fast", 7)),
        scenario(group("fast", 3), group("slow")),
        scenario(group("fast", 3, batch_size=20), group("slow", batch_size=4)),
    ]
    predicted = model.predict(scenarios)
    assert predicted["value"].to_list() == pytest.approx([0.34, 0.34, 0.58, 0.7])
    assert predicted["low"].null_count() == 4


@pytest.mark.parametrize(
    "asked", [scenario(group("other")), scenario(group("fast"), dnn="squeezenet")]
)
def test_what_was_not_profiled_is_refused(model: ideal.IdealScaling, asked: Scenario) -> None:
    with pytest.raises(BadInput, match="has no compute profile on"):
        model.predict([asked])
