"""Settings that have changed since something landed are told, each way once."""

from pathlib import Path

from forecasting.inputs import inputs_of_study
from studies.rounds import Round, changed_settings, open_round
from studies.run_settings import with_settings
from studies.study import read_study
from tests.synthetic import HOST, STUDY, landed, needs, write_study


def opened(folder: Path, right: str, wrong: str, done: int) -> Round:
    """Return the round of a study of which `done` needs landed before its file was changed."""
    before = needs(read_study(write_study(folder)))
    runs = [with_settings(landed(need), need.settings) for need in before[:done]]
    changed = read_study(write_study(folder, STUDY.replace(right, wrong)))
    return open_round(changed, inputs_of_study(changed), "emulated", HOST, runs)


def test_nothing_is_told_where_nothing_has_changed(tmp_path: Path) -> None:
    assert list(changed_settings(opened(tmp_path, "flows: [1, 2]", "flows: [2, 1]", 5))) == []


def test_what_is_measured_again_is_told(tmp_path: Path) -> None:
    round_ = opened(tmp_path, "flows: [1, 2], seconds: 1", "flows: [1, 2, 3], seconds: 2", 3)
    assert list(changed_settings(round_)) == [
        "probe links, 200 Mb/s: landed with flows [1, 2], not [1, 2, 3]; measured again, since "
        "the study asks for something else"
    ]


def test_what_is_used_as_it_is_is_told_once_for_all_alike(tmp_path: Path) -> None:
    round_ = opened(tmp_path, "traced_steps: 4, untraced", "traced_steps: 9, untraced", 3)
    assert list(changed_settings(round_)) == [
        "profile small_cnn 16px b4, 200 Mb/s, W=1; profile alexnet 64px b4, 200 Mb/s, W=1: landed "
        "with traced_steps 4, not 9; used as it has landed"
    ]


def test_a_round_that_has_begun_to_be_judged_uses_all_as_it_is(tmp_path: Path) -> None:
    round_ = opened(tmp_path, "flows: [1, 2]", "flows: [1, 2, 3]", 4)
    assert list(changed_settings(round_)) == [
        "probe links, 200 Mb/s: landed with flows [1, 2], not [1, 2, 3]; used as it has landed"
    ]


def test_runs_that_do_not_tell_are_counted(tmp_path: Path) -> None:
    study = read_study(write_study(tmp_path))
    runs = [landed(need) for need in needs(study)[:2]]
    assert list(
        changed_settings(open_round(study, inputs_of_study(study), "emulated", HOST, runs))
    ) == ["2 runs landed without the settings of their probes; used as if those were the study's"]
