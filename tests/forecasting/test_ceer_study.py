"""What a round of training by operations measured, and what forecasts it: of the reference."""

from dataclasses import replace

import pytest

from forecasting.ceer_study import fitted_model, read_measurements
from models.ceer import predictor
from studies.rounds import Round
from tests.reference import REFERENCE, first_round


@pytest.fixture(scope="module")
def reference() -> Round:
    return first_round("reference_ceer_pytorch")


def test_the_model_is_fitted_to_what_predictors_saw(reference: Round) -> None:
    data, model = read_measurements(reference, REFERENCE), fitted_model(reference, REFERENCE)
    assert data is not None and model is not None
    operations, steps = data.fitted
    assert model.parameters == predictor.fit(operations=operations, steps=steps).parameters
    assert set(data.unseen) & set(model.parameters.dnns) == set()
    assert set(data.whole_forecasts["dnn"]) == set(data.unseen)


def test_a_round_without_profiles_measured_nothing(reference: Round) -> None:
    nothing = replace(reference, runs=())
    assert read_measurements(nothing, REFERENCE) is None
    assert fitted_model(nothing, REFERENCE) is None


def test_rounds_of_other_training_have_no_such_model(round_: Round) -> None:
    assert read_measurements(round_, REFERENCE) is None
    assert fitted_model(round_, REFERENCE) is None
