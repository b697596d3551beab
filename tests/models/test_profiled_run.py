import pytest

from models.profiled_run import metric_mean, read_scenario
from tests.models.async_sgd.frames import RUN_ID
from tests.models.runs import samples
from warehouse.records import BadInput


def test_a_scenario_of_another_version_is_refused() -> None:
    with pytest.raises(BadInput, match="not one this version reads"):
        read_scenario("{}")


def test_a_metric_of_another_run_does_not_count() -> None:
    with pytest.raises(BadInput, match="expected metric x of 0 or more, found None"):
        metric_mean({"sample": samples({"x": [1]}, run_id="another")}, RUN_ID, "x")
