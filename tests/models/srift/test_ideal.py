"""Linear scaling of synchronous training: the slowest node alone, whatever the number of nodes."""

import polars as pl
import pytest

from models.srift import ideal
from models.srift.ideal import IDEAL_SCALING
from tests.models.srift import study
from tests.models.srift.study import group, scenario
from warehouse.records import BadInput, Scenario, Strategy
from warehouse.requirements import Refusal


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


def otherwise(training: Scenario, **recipe: str) -> Scenario:
    """Return the same on one device by itself, or by a recipe."""
    if recipe:
        load = training.workload.model_copy(update=recipe)
        return training.model_copy(update={"workload": load})
    alone = {"strategy": Strategy(kind="single", workers=1), "link_mbps": None}
    return training.model_copy(update=alone)


def test_passes_stand_for_no_other_training(model: ideal.IdealScaling) -> None:
    """A device alone and other recipes have passes of their own: here of half the time."""
    plain = scenario(group("fast"))
    for other in (otherwise(plain), otherwise(plain, precision="bfloat16")):
        assert not isinstance(IDEAL_SCALING.requires(other), Refusal)
        with pytest.raises(BadInput, match="has no compute profile on"):
            model.predict([other])
        tables = study.tables()
        (run_id,) = tables["run"].filter(scenario_id=plain.scenario_id)["run_id"].head(1)
        run = (
            tables["run"]
            .filter(run_id=run_id)
            .with_columns(run_id=pl.lit("other"), scenario_id=pl.lit(other.scenario_id))
        )
        known = pl.DataFrame(
            {"scenario_id": [other.scenario_id], "canonical": [other.canonical_json()]}
        )
        faster = (
            tables["compute"]
            .filter(run_id=run_id)
            .with_columns(pl.col("forward_s", "backward_s", "update_s") / 2, run_id=pl.lit("other"))
        )
        refitted = ideal.fit(
            {
                "run": pl.concat([tables["run"], run]),
                "scenario": pl.concat([tables["scenario"], known], how="diagonal"),
                "compute": pl.concat([tables["compute"], faster.select(tables["compute"].columns)]),
            }
        )
        assert refitted.predict([plain, other])["value"].to_list() == pytest.approx([0.34, 0.17])
