"""The benchmark of the optimiser: what it searches, not how fast that was."""

from dataclasses import replace

import pytest

from benchmarks import optimizer
from benchmarks.optimizer import PRICES, case, catalogue
from models.srift import iteration
from models.srift.iteration import Configuration, Performance
from models.srift.policies import Policy, choose_by_policy
from tests.models.srift.performances import every_configuration
from warehouse.records import StepcastError


@pytest.mark.parametrize(
    ("number", "chosen", "cap", "tap"),
    [
        (1, "16 g4dn.8xlarge@64", "8 g4dn.8xlarge@128", "8 g4dn.8xlarge@128"),
        (2, "8 g4dn.8xlarge@128", "16 g3.8xlarge@64", "8 g4dn.8xlarge@128"),
        (
            3,
            "4 p3.8xlarge@1024 + 8 g3.8xlarge@128 + 8 g4dn.8xlarge@128",
            "8 g3.8xlarge@256 + 8 g4dn.8xlarge@256 + 2 p3.8xlarge@1024",
            "4 p3.8xlarge@1024 + 8 g4dn.8xlarge@256",
        ),
    ],
)
def test_the_paper_s_choices(number: int, chosen: str, cap: str, tap: str) -> None:
    """Section 5.2; in case 1 it prints batches half as large, which do not add up to 1024."""
    study = case(number)
    answer = optimizer.confirm_answer(study)
    assert answer.choice is not None
    assert answer.choice.configuration.label == chosen
    policies: tuple[tuple[Policy, str], ...] = (("CAP", cap), ("TAP", tap))
    for which, label in policies:
        offered = choose_by_policy(which, study.performance, study.offers, study.job.global_batch)
        assert offered is not None
        assert offered.label == label


def test_configurations_are_counted_before_any_is_ruled_out() -> None:
    study = case(2)
    listed = every_configuration(study.performance, study.offers, study.job.global_batch, 2)
    assert optimizer.answer(study).configurations == len(list(listed))


def test_the_paper_s_prices_of_its_configurations() -> None:
    """Case 3: 378 s of 4 p3, 8 g3 and 8 g4dn nodes are 2.72 $ (printed)."""
    usd_per_hour = 4 * PRICES["p3.8xlarge"] + 8 * PRICES["g3.8xlarge"] + 8 * PRICES["g4dn.8xlarge"]
    assert 378 * usd_per_hour / 3600 == pytest.approx(2.72, abs=0.02)


def test_every_figure_is_measured() -> None:
    lines: list[str] = []
    figures = optimizer.measure(types=3, capacity=4, progress=lines.append)
    assert list(figures.to_dict()) == [
        "case1_s",
        "case2_s",
        "case3_s",
        "catalogue_s",
        "catalogue_configurations",
    ]
    assert all(figure > 0 for figure in figures.to_dict().values())
    assert len(figures.choices) == 4
    assert lines == ["case 1", "case 2", "case 3", "3 types of 4 nodes"]


def test_a_choice_that_the_event_simulator_denies(monkeypatch: pytest.MonkeyPatch) -> None:
    study = catalogue(types=2, capacity=64)
    real = iteration.simulate

    def slower(performance: Performance, configuration: Configuration) -> iteration.Iteration:
        exact = real(performance, configuration)
        return replace(exact, forward_s=exact.forward_s * 1.001)

    monkeypatch.setattr(iteration, "simulate", slower)
    with pytest.raises(StepcastError, match="this is a defect of the search"):
        optimizer.confirm_answer(study)
