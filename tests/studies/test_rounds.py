"""Which round of a study is to be done, and what of it is missing."""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from forecasting.inputs import inputs_of_study, profiled_curves, systems_of
from profilers.probe import PlannedRun
from studies.rounds import Round, latest_round, open_round, refresh_round, shown_host, whole_round
from studies.run_settings import with_settings
from studies.study import Study, read_study
from tests.synthetic import HOST, PYTORCH, STUDY, landed, needs, seen_of, write_study
from warehouse.records import Run


@pytest.fixture
def study(study_file: Path) -> Study:
    """Return a study of 7 runs per round: links, 2 profiles, 4 scenarios."""
    return read_study(study_file)


def to_do(study: Study, runs: Iterable[Run]) -> Round:
    return open_round(study, inputs_of_study(study), "emulated", HOST, runs)


def newest(study: Study, runs: Iterable[Run]) -> Round | None:
    return latest_round(study, inputs_of_study(study), "emulated", HOST, runs)


def missing(study: Study, runs: Iterable[Run]) -> tuple[int, list[str]]:
    round_ = to_do(study, runs)
    return round_.repeat, [need.title for need in round_.missing]


def test_a_round_profiles_first_and_measures_every_scenario(study: Study) -> None:
    assert [need.title for need in needs(study)] == [
        "probe links, 200 Mb/s",
        "profile small_cnn 16px b4, 200 Mb/s, W=1",
        "profile alexnet 64px b4, 200 Mb/s, W=1",
        "measure small_cnn 16px b4, 200 Mb/s, W=1",
        "measure small_cnn 16px b4, 200 Mb/s, W=2",
        "measure alexnet 64px b4, 200 Mb/s, W=1",
        "measure alexnet 64px b4, 200 Mb/s, W=3",
    ]
    purposes = [need.purpose for need in needs(study)]
    assert purposes == ["profile"] * 3 + ["measurement"] * 4


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "failed", "error": "no"},
        {"study": "other"},
        {"backend": "loopback"},
        {"host_id": "host-2"},
        {"purpose": "profile"},
        {"probe": "tf_trace"},
        {"scenario_id": "0" * 16},
    ],
)
def test_only_an_ok_run_of_the_same_kind_counts(study: Study, changes: dict[str, Any]) -> None:
    *others, last = needs(study)
    runs = [landed(need) for need in others]
    assert missing(study, [*runs, landed(last, **changes)]) == (1, [last.title])
    assert missing(study, [*runs, landed(last)])[0] == 2


def test_a_scenario_added_later_is_made_up_for_in_the_first_round(
    study: Study, tmp_path: Path
) -> None:
    runs = [landed(need, repeat) for need in needs(study) for repeat in (1, 2)]
    longer = read_study(write_study(tmp_path, STUDY.replace("[1, 3]", "[1, 3, 4]")))
    added = "measure alexnet 64px b4, 200 Mb/s, W=4"
    assert missing(longer, runs) == (1, [added])
    newer = {
        "started_at": datetime(2030, 1, 1, tzinfo=UTC),
        "ended_at": datetime(2030, 1, 2, tzinfo=UTC),
    }
    runs = [run.model_copy(update=newer) if run.repeat == 2 else run for run in runs]
    going_on = newest(longer, runs)
    assert going_on is not None
    assert (going_on.repeat, [need.title for need in going_on.missing]) == (1, [added])
    late = landed(
        needs(longer)[-1], started_at=datetime(2030, 2, 1, tzinfo=UTC),
        ended_at=datetime(2030, 2, 2, tzinfo=UTC),
    )  # fmt: skip
    judged = newest(longer, [*runs, late])
    assert judged is not None
    assert (judged.repeat, judged.missing) == (1, ())


def test_curves_on_other_links_share_a_profile(tmp_path: Path) -> None:
    other = (
        "  - {dnn: small_cnn, image_size: 16, batch_size: 4, worker: emu.native.c25, "
        "server: emu.server, link_mbps: 100, profiled_at_mbps: 200, workers: [2]}\n"
    )
    study = read_study(write_study(tmp_path, STUDY + other))
    planned_runs = needs(study)
    assert [need.title for need in planned_runs if need.probe == "tf_trace"] == [
        "profile small_cnn 16px b4, 200 Mb/s, W=1",
        "profile alexnet 64px b4, 200 Mb/s, W=1",
    ]
    assert {need.subject.link_mbps for need in planned_runs if need.probe == "links"} == {100, 200}
    assert [need.title for need in seen_of(study.curves[2], study, "emulated")] == [
        "probe links, 200 Mb/s",
        "probe links, 100 Mb/s",
        "profile small_cnn 16px b4, 200 Mb/s, W=1",
    ]


def test_later_rounds_repeat_a_part(tmp_path: Path) -> None:
    text = STUDY.replace("probes:", "again: {fraction: 0.5, seed: 3}\nprobes:")
    study = read_study(write_study(tmp_path, text))
    first = [landed(need) for need in needs(study)]
    repeat, names = missing(study, first)
    assert repeat == 2
    assert len([name for name in names if name.startswith("measure")]) == 1
    assert len([name for name in names if name.startswith("profile")]) == 1
    second = [landed(need, 2) for need in needs(study.in_round(2))]
    assert missing(study, first + second)[0] == 3
    latest = newest(study, [*first, *map(_late, second)])
    assert latest is not None
    assert len(latest.study.curves) == 1
    shown = whole_round(latest, study, first + second)
    assert (shown.repeat, shown.study, shown.missing) == (1, study, ())


def _late(run: Run) -> Run:
    at = datetime(2030, 1, 1, 5, tzinfo=UTC)
    return run.model_copy(update={"started_at": at, "ended_at": at})


def repeated(folder: Path) -> Study:
    """Return a study whose later rounds repeat one of its scenarios, judged by two systems."""
    text = PYTORCH.replace("probes:", "again: {fraction: 0.5, seed: 3}\nprobes:")
    return read_study(write_study(folder, text))


def test_later_rounds_profile_test_scenarios_anew_and_go_on_with_train(tmp_path: Path) -> None:
    study = repeated(tmp_path)
    first = [landed(need) for need in needs(study)]
    second = to_do(study, first)
    assert second.repeat == 2
    assert [(need.probe, need.purpose) for need in second.missing] == [
        ("links", "profile"),
        ("allreduce", "profile"),
        ("torch_compute", "profile"),
        ("torch_operations", "measurement"),
        ("torch_throughput", "measurement"),
    ]
    of_train = [need for need in second.needs if need.of_train]
    assert len(of_train) == 2 + 6
    assert all(second.run_of(need) in first for need in of_train)
    assert not [need for need in second.needs if not need.of_train and second.run_of(need)]


@pytest.mark.parametrize("done", [1, 3, 4])
def test_a_half_done_later_round_resumes(done: int, tmp_path: Path) -> None:
    study = repeated(tmp_path)
    first = [landed(need) for need in needs(study)]
    whole = to_do(study, first).missing
    begun = [landed(need, 2) for need in whole[:done]]
    resumed = to_do(study, first + begun)
    assert (resumed.repeat, resumed.missing) == (2, whole[done:])
    assert resumed.is_judged == (done > 3)
    assert to_do(study, [*first, *(landed(need, 2) for need in whole)]).repeat == 3


def test_what_an_earlier_round_profiled_with_other_settings_is_its_own_matter(
    tmp_path: Path,
) -> None:
    """Of train scenarios it is used, or superseded; of test scenarios it was another round's."""
    study = repeated(tmp_path)
    first = [told(need) for need in needs(study)]
    assert to_do(study, first).superseded == {}
    changed = study.model_copy(
        update={"probes": {**study.probes, "torch_compute": {"batch_sizes": [1, 2, 8]}}}
    )
    opened = to_do(changed, first)
    assert (opened.repeat, opened.superseded) == (2, {})


def told(need: PlannedRun) -> Run:
    """Return a run of a need that tells its settings."""
    return with_settings(landed(need), need.settings)


def with_links(folder: Path, links: str) -> Study:
    return read_study(write_study(folder, STUDY.replace("flows: [1, 2], seconds: 1", links)))


def test_what_was_measured_of_something_else_is_measured_again(
    study: Study, tmp_path: Path
) -> None:
    runs = [told(need) for need in needs(study) if need.profiles]
    longer = with_links(tmp_path, "flows: [3, 1, 2], seconds: 1")
    opened = to_do(longer, runs)
    links, *_ = needs(longer)
    assert [need.title for need in opened.missing if need.profiles] == [links.title]
    assert opened.superseded == {runs[0].run_id: links}
    anew = _late(told(links).model_copy(update={"run_id": "anew"}))
    after = refresh_round(opened, [*runs, anew])
    assert after.runs_of("links") == {links: anew}
    assert after.superseded == {runs[0].run_id: links}


def test_a_run_that_does_not_tell_its_settings_serves(study: Study, tmp_path: Path) -> None:
    runs = [landed(need) for need in needs(study) if need.profiles]
    opened = to_do(with_links(tmp_path, "flows: [1, 2, 3], seconds: 1"), runs)
    assert not [need.title for need in opened.missing if need.profiles]


def test_a_round_that_has_begun_to_be_judged_keeps_its_profiles(
    study: Study, tmp_path: Path
) -> None:
    whole = needs(study)
    longer = with_links(tmp_path, "flows: [1, 2, 3], seconds: 1")
    begun = [told(need) for need in whole[:4]]
    opened = to_do(longer, begun)
    assert (opened.repeat, len(opened.missing), opened.superseded) == (1, 3, {})
    complete = to_do(longer, [told(need) for need in whole])
    assert complete.repeat == 2


def test_curves_without_their_profile_are_left_out(study: Study) -> None:
    links, small, *_ = needs(study)
    opened = to_do(study, [landed(links), landed(small)])
    profiled = profiled_curves(opened, systems_of(study))
    assert profiled is not None
    assert [curve.dnn for curve in profiled.study.curves] == ["small_cnn"]
    assert profiled_curves(to_do(study, [landed(small)]), systems_of(study)) is None


def test_shown_is_this_host_else_the_one_that_ran_last(study: Study) -> None:
    need, other = needs(study)[:2]
    runs = [landed(need, 2, host_id="first"), landed(other, 3, host_id="second")]
    runs += [landed(need, 4, host_id="third", backend="loopback")]
    assert shown_host(study, "emulated", "first", runs) == "first"
    assert shown_host(study, "emulated", "nowhere", runs) == "second"
    assert shown_host(study, "emulated", "nowhere", []) == "nowhere"
