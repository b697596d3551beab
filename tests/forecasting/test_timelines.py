"""Which round and profile a timeline is of."""

from pathlib import Path

import polars as pl
import pytest

from forecasting.timelines import find, measured
from studies.study import Study, read_study
from tests.models.async_sgd.fits import fitted
from tests.models.async_sgd.frames import chain
from tests.synthetic import DDP, landed, needs, write_study
from warehouse.landing import land
from warehouse.records import BadInput, Run


@pytest.fixture
def study(study_file: object) -> Study:
    return read_study(study_file)  # type: ignore[arg-type]


def runs(study: Study, repeat: int = 1, *, without: str = "nothing") -> list[Run]:
    """Return the runs of a round but those whose name begins so."""
    return [landed(need, repeat) for need in needs(study) if not need.title.startswith(without)]


LABEL = "alexnet 64px b4, 200 Mb/s, W=3"


def test_a_scenario_is_found_by_label_and_by_id(study: Study) -> None:
    by_label = find(study, LABEL, runs(study))
    assert by_label.scenario.label == LABEL
    assert by_label.curve.dnn == "alexnet"
    assert find(study, by_label.scenario.scenario_id, runs(study)) == by_label
    assert by_label.profile is not None and by_label.measurement is not None
    assert by_label.profile.run_id == "profile alexnet 64px b4, 200 Mb/s, W=1, round 1"
    assert by_label.measurement.run_id == f"measure {LABEL}, round 1"


def test_the_newest_round_with_a_profile_counts(study: Study) -> None:
    both = [*runs(study), *runs(study, 2)]
    assert find(study, LABEL, both).round_.repeat == 2
    begun = [*runs(study), *runs(study, 2, without="profile alexnet")]
    assert find(study, LABEL, begun).round_.repeat == 1
    assert find(study, "small_cnn 16px b4, 200 Mb/s, W=2", begun).round_.repeat == 2


def test_what_was_not_measured_has_no_measurement(study: Study) -> None:
    assert find(study, LABEL, runs(study, without="measure")).measurement is None


def test_without_a_profile_it_says_what_makes_one(study: Study) -> None:
    with pytest.raises(BadInput, match="nothing of study paper has landed yet; run it first"):
        find(study, LABEL, [])
    with pytest.raises(BadInput, match=f"{LABEL}: study paper has no profile of it yet"):
        find(study, LABEL, runs(study, without="profile"))


def test_an_unknown_scenario_is_told_with_near_ones(study: Study) -> None:
    near = "has no scenario 'alexnet W=3'; near are 'alexnet 64px b4, 200 Mb/s, W=3', "
    with pytest.raises(BadInput, match=near):
        find(study, "alexnet W=3", runs(study))
    with pytest.raises(BadInput, match="near are 'small_cnn 16px b4, 200 Mb/s, W=1', "):
        find(study, "-", runs(study))


def test_what_is_not_simulated_has_no_timeline(tmp_path: Path) -> None:
    study = read_study(write_study(tmp_path, DDP))
    (label, *_) = (one.label for curve in study.curves for one in curve.scenarios("emulated"))
    with pytest.raises(BadInput, match="has no timeline: async_sgd does not predict it: it is ab"):
        find(study, label, runs(study))


def test_a_label_of_several_scenarios_is_told_with_their_ids(study: Study) -> None:
    curve = study.curves[1]
    twice = study.with_curves([curve, curve.model_copy(update={"worker": ("emu.native.c15",)})])
    with pytest.raises(
        BadInput, match=r"has 2 scenarios .*; name one: [0-9a-f]{16}, [0-9a-f]{16}$"
    ):
        find(twice, LABEL, runs(twice))


def test_several_workers_show_when_their_steps_started_and_ended(
    study: Study, tmp_path: Path
) -> None:
    model, subject = fitted(chain()), find(study, LABEL, runs(study, without="measure"))
    assert measured(model, subject, tmp_path, 2) is None
    steps = pl.DataFrame(
        {
            "worker": [0, 0, 1, 1],
            "step": [0, 1, 0, 1],
            "window": [0, 0, 0, 0],
            "traced": [False] * 4,
            "start_us": [100, 150, 120, 170],
            "end_us": [149, 199, 169, 219],
        }
    )
    (need,) = (one for one in needs(study) if one.title == f"measure {LABEL}")
    run = landed(need, run_id="m1")
    land(tmp_path, run, subject.scenario, {"step": steps})
    after = find(study, LABEL, [*runs(study, without="measure"), run])
    half = measured(model, after, tmp_path, 2)
    assert half is not None
    shown, _ = half
    assert shown.steps.rows() == [(0, 1, 30, 79), (1, 0, 0, 49), (1, 1, 50, 99)]
