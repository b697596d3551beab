"""Models of the profiles of curves on paper."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from forecasting.simulations import FittedModels
from studies.rounds import Round
from tests.synthetic import MIXED


def test_mixed_workers_are_simulated_from_all_their_profiles(
    landed_round: Callable[[str], Round], landing: Path
) -> None:
    round_ = landed_round(MIXED)
    models = FittedModels(round_, landing)
    model = models.of_curve(round_.study.curves[0])
    assert model is not None and len(model.profiles) == 2
    assert [len(alone.profiles) for alone in models.values()] == [1, 1, 1]
    assert models.of_curve(round_.study.curves[0]) is model


def test_without_a_profile_there_is_no_model(round_: Round, landing: Path) -> None:
    measured = tuple(run for run in round_.runs if run.probe != "tf_trace")
    nothing = FittedModels(replace(round_, runs=measured), landing)
    assert not nothing
    assert nothing.of_curve(round_.study.curves[0]) is None
