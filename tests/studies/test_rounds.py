"""Which round of a study is to be done, and what of it is missing."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from studies.asked import noted
from studies.parts import Part, parts

from forecasting.resting import profiled_curves
from models.async_sgd.systems import ASYNC_SGD
from studies.rounds import latest_round, open_round, refreshed, rounds_of, whole_round
from studies.study import Study, read_study
from tests.synthetic import HOST, STUDY, landed, seen_of, write_study
from warehouse.records import Run


@pytest.fixture
def study(study_file: Path) -> Study:
    """Return a study of 7 runs per round: links, 2 profiles, 4 scenarios."""
    return read_study(study_file)


def missing(study: Study, runs: Iterable[Run]) -> tuple[int, list[str]]:
    found = open_round(study, "emulated", HOST, runs)
    return found.repeat, [part.name for part in found.missing]


def test_a_round_profiles_first_and_measures_every_scenario(study: Study) -> None:
    assert [part.name for part in parts(study, "emulated")] == [
        "probe links, 200 Mb/s",
        "profile small_cnn 16px b4, 200 Mb/s, W=1",
        "profile alexnet 64px b4, 200 Mb/s, W=1",
        "measure small_cnn 16px b4, 200 Mb/s, W=1",
        "measure small_cnn 16px b4, 200 Mb/s, W=2",
        "measure alexnet 64px b4, 200 Mb/s, W=1",
        "measure alexnet 64px b4, 200 Mb/s, W=3",
    ]
    purposes = [part.purpose for part in parts(study, "emulated")]
    assert purposes == ["profile"] * 3 + ["measurement"] * 4


def test_several_servers_are_profiled_and_one_too(tmp_path: Path) -> None:
    text = STUDY.replace("workers: [1, 2]", "servers: 2, workers: [1, 2]")
    study = read_study(write_study(tmp_path, text))
    found = [part for part in parts(study, "emulated") if part.probe == "tf_trace"]
    assert [part.name for part in found][:2] == [
        "profile small_cnn 16px b4, 200 Mb/s, M=2, W=1",
        "profile small_cnn 16px b4, 200 Mb/s, W=1",
    ]
    curve = study.curves[0]
    for part, one in zip(found, curve.as_profiled(), strict=False):
        assert part.curve == curve
        seen = seen_of(one, study, "emulated", ASYNC_SGD)
        assert [other for other in seen if other.probe == "tf_trace"] == [part]


def test_links_are_probed_once_for_each_speed(tmp_path: Path) -> None:
    text = STUDY.replace("link_mbps: 200, workers: [1, 3]", "link_mbps: 400, workers: [1, 3]")
    study = read_study(write_study(tmp_path, text))
    speeds = {part.link_mbps for part in parts(study, "emulated") if part.probe == "links"}
    assert speeds == {200, 400}
    unshaped = [part for part in parts(study, "loopback") if part.probe == "links"]
    assert [part.link_mbps for part in unshaped] == [None]


def test_nothing_landed_means_the_first_round(study: Study) -> None:
    assert missing(study, []) == (1, [part.name for part in parts(study, "emulated")])
    assert latest_round(study, "emulated", HOST, []) is None


def test_an_interrupted_round_is_continued(study: Study) -> None:
    done = parts(study, "emulated")[:4]
    rest = [part.name for part in parts(study, "emulated")[4:]]
    assert missing(study, [landed(part) for part in done]) == (1, rest)


def test_a_complete_round_opens_the_next(study: Study) -> None:
    first = [landed(part) for part in parts(study, "emulated")]
    assert missing(study, first)[0] == 2
    second = [landed(part, 2) for part in parts(study, "emulated")[:2]]
    repeat, names = missing(study, first + second)
    assert (repeat, len(names)) == (2, 5)


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
    *others, last = parts(study, "emulated")
    runs = [landed(part) for part in others]
    assert missing(study, [*runs, landed(last, **changes)]) == (1, [last.name])
    assert missing(study, [*runs, landed(last)])[0] == 2


def test_links_of_another_speed_do_not_count(study: Study) -> None:
    links, *others = parts(study, "emulated")
    runs = [landed(part) for part in others]
    wrong = landed(links, config={"link_mbps": 100.0})
    assert missing(study, [*runs, wrong]) == (1, [links.name])


def test_a_scenario_added_later_is_made_up_for_in_the_first_round(
    study: Study, tmp_path: Path
) -> None:
    runs = [landed(part, repeat) for part in parts(study, "emulated") for repeat in (1, 2)]
    longer = read_study(write_study(tmp_path, STUDY.replace("[1, 3]", "[1, 3, 4]")))
    added = "measure alexnet 64px b4, 200 Mb/s, W=4"
    assert missing(longer, runs) == (1, [added])
    newer = {
        "started_at": datetime(2030, 1, 1, tzinfo=UTC),
        "ended_at": datetime(2030, 1, 2, tzinfo=UTC),
    }
    runs = [run.model_copy(update=newer) if run.repeat == 2 else run for run in runs]
    going_on = latest_round(longer, "emulated", HOST, runs)
    assert going_on is not None
    assert (going_on.repeat, [part.name for part in going_on.missing]) == (1, [added])
    late = landed(
        parts(longer, "emulated")[-1], started_at=datetime(2030, 2, 1, tzinfo=UTC),
        ended_at=datetime(2030, 2, 2, tzinfo=UTC),
    )  # fmt: skip
    judged = latest_round(longer, "emulated", HOST, [*runs, late])
    assert judged is not None
    assert (judged.repeat, judged.missing) == (1, ())


def test_the_latest_round_stays_the_same_when_it_is_complete(study: Study) -> None:
    runs = [landed(part) for part in parts(study, "emulated")]
    judged = latest_round(study, "emulated", HOST, runs)
    assert judged is not None
    assert (judged.repeat, judged.missing) == (1, ())


def test_a_refreshed_round_knows_what_landed_meanwhile(study: Study) -> None:
    before = open_round(study, "emulated", HOST, [])
    after = refreshed(before, [landed(part) for part in parts(study, "emulated")])
    assert (after.repeat, after.missing) == (1, ())


def test_the_newest_of_several_runs_of_a_part_counts(study: Study) -> None:
    part = parts(study, "emulated")[0]
    late = datetime(2030, 1, 1, 5, tzinfo=UTC)
    newer = landed(part, run_id="newer", started_at=late, ended_at=late)
    found = open_round(study, "emulated", HOST, [newer, landed(part)])
    assert found.runs_of("links") == {part: newer}


def test_jobs_on_other_links_share_a_profile(tmp_path: Path) -> None:
    other = (
        "  - {dnn: small_cnn, image_size: 16, batch_size: 4, worker: emu.native.c25, "
        "server: emu.server, link_mbps: 100, profiled_link_mbps: 200, workers: [2]}\n"
    )
    study = read_study(write_study(tmp_path, STUDY + other))
    found = parts(study, "emulated")
    assert [part.name for part in found if part.probe == "tf_trace"] == [
        "profile small_cnn 16px b4, 200 Mb/s, W=1",
        "profile alexnet 64px b4, 200 Mb/s, W=1",
    ]
    assert {part.link_mbps for part in found if part.probe == "links"} == {100, 200}
    assert [part.name for part in seen_of(study.curves[2], study, "emulated")] == [
        "probe links, 200 Mb/s",
        "probe links, 100 Mb/s",
        "profile small_cnn 16px b4, 200 Mb/s, W=1",
    ]


def test_contention_is_probed_for_each_link_and_worker(tmp_path: Path) -> None:
    text = STUDY.replace("trials: 2}", "trials: 2, contention_s: 3}")
    text = text.replace(
        "batch_size: 4, worker: emu.native.c25", "batch_size: 4, worker: emu.native.c15", 1
    )
    study = read_study(write_study(tmp_path, text))
    assert [part.name for part in parts(study, "emulated") if part.probe == "contention"] == [
        "probe contention, 200 Mb/s, emu.native.c15",
        "probe contention, 200 Mb/s, emu.native.c25",
    ]
    mine = seen_of(study.curves[1], study, "emulated")
    assert [part.name for part in mine if part.probe == "contention"] == [
        "probe contention, 200 Mb/s, emu.native.c25"
    ]


def test_later_rounds_repeat_single_workers_where_there_are_no_several(tmp_path: Path) -> None:
    text = STUDY.replace("jobs:", "again: {fraction: 0.5, seed: 3}\njobs:")
    text = re.sub(r"workers: \[[^]]*\]", "workers: [1]", text)
    study = read_study(write_study(tmp_path, text))
    assert {workers for curve in study.in_round(2).curves for workers in curve.workers} == {1}


def test_later_rounds_repeat_a_part(tmp_path: Path) -> None:
    text = STUDY.replace("jobs:", "again: {fraction: 0.5, seed: 3}\njobs:")
    study = read_study(write_study(tmp_path, text))
    first = [landed(part) for part in parts(study, "emulated")]
    repeat, names = missing(study, first)
    assert repeat == 2
    assert len([name for name in names if name.startswith("measure")]) == 1
    assert len([name for name in names if name.startswith("profile")]) == 1
    second = [landed(part, 2) for part in parts(study.in_round(2), "emulated")]
    assert missing(study, first + second)[0] == 3
    latest = latest_round(study, "emulated", HOST, [*first, *map(_late, second)])
    assert latest is not None
    assert len(latest.study.curves) == 1
    shown = whole_round(latest, study, first + second)
    assert (shown.repeat, shown.study, shown.missing) == (1, study, ())


def _late(run: Run) -> Run:
    at = datetime(2030, 1, 1, 5, tzinfo=UTC)
    return run.model_copy(update={"started_at": at, "ended_at": at})


def test_a_report_shows_the_round_that_ran_last_where_each_is_whole(study: Study) -> None:
    runs = [landed(part, repeat) for part in parts(study, "emulated") for repeat in (1, 2)]
    latest = latest_round(study, "emulated", HOST, [_late(run) for run in runs if run.repeat == 2])
    assert latest is not None
    assert whole_round(latest, study, runs) == latest


def test_later_rounds_by_operations_keep_the_profiles_of_earlier_ones(tmp_path: Path) -> None:
    text = SYNCHRONOUS.replace("jobs:", "again: {fraction: 0.3, seed: 3}\njobs:")
    study = read_study(write_study(tmp_path, text))
    whole = parts(study, "emulated")
    first = [landed(part) for part in whole]
    repeat, names = missing(study, first)
    assert repeat == 2
    measured = [name for name in names if name.startswith("measure")]
    assert measured
    assert not any("googlenet" in name or "vgg11" in name for name in names), "all are judged"
    opened = open_round(study, "emulated", HOST, first)
    profiled = [part for part in whole if part.profiles]
    assert all(opened.run_of(part) for part in profiled), "forecasts need every profile"
    assert {run.purpose for run in opened.runs} == {"profile"}
    (anew,) = [landed(part, 2) for part in profiled[:1]]
    later = refreshed(opened, [*first, anew]).run_of(profiled[0])
    assert later == anew
    (before,) = (
        one.run_of(profiled[0]) for one in rounds_of(study, [*first, anew]) if one.repeat == 1
    )
    assert before == first[whole.index(profiled[0])], "nothing of a later round"
    second = [landed(part, 2) for part in opened.missing]
    assert missing(study, first + second)[0] == 3


def test_a_study_that_judges_nothing_is_repeated_whole(tmp_path: Path) -> None:
    text = SYNCHRONOUS.replace("jobs:", "again: {fraction: 0.3, seed: 3}\njobs:")
    study = read_study(write_study(tmp_path, text))
    fitted = study.model_copy(
        update={"curves": tuple(curve for curve in study.curves if curve.fitted)}
    )
    repeat, names = missing(fitted, [landed(part) for part in parts(fitted, "emulated")])
    assert repeat == 2
    assert len(names) == len(parts(fitted, "emulated"))


def told(part: Part) -> Run:
    """Return a run of a part that tells its settings."""
    return noted(landed(part), part.settings)


def with_links(folder: Path, links: str) -> Study:
    return read_study(write_study(folder, STUDY.replace("flows: [1, 2], seconds: 1", links)))


def test_what_was_measured_of_something_else_is_measured_again(
    study: Study, tmp_path: Path
) -> None:
    runs = [told(part) for part in parts(study, "emulated") if part.profiles]
    longer = with_links(tmp_path, "flows: [3, 1, 2], seconds: 1")
    opened = open_round(longer, "emulated", HOST, runs)
    links, *_ = parts(longer, "emulated")
    assert [part.name for part in opened.missing if part.profiles] == [links.name]
    assert opened.superseded == {runs[0].run_id: links}
    anew = _late(told(links).model_copy(update={"run_id": "anew"}))
    after = refreshed(opened, [*runs, anew])
    assert after.runs_of("links") == {links: anew}
    assert after.superseded == {runs[0].run_id: links}


def test_the_order_of_a_list_and_how_often_are_nothing_else(study: Study, tmp_path: Path) -> None:
    runs = [told(part) for part in parts(study, "emulated")[:3]]
    other = with_links(tmp_path, "flows: [2, 1], seconds: 9")
    opened = open_round(other, "emulated", HOST, runs)
    assert not [part.name for part in opened.missing if part.profiles]
    assert not opened.superseded


def test_a_run_that_does_not_tell_its_settings_serves(study: Study, tmp_path: Path) -> None:
    runs = [landed(part) for part in parts(study, "emulated") if part.profiles]
    opened = open_round(
        with_links(tmp_path, "flows: [1, 2, 3], seconds: 1"), "emulated", HOST, runs
    )
    assert not [part.name for part in opened.missing if part.profiles]


def test_a_round_that_has_begun_to_be_judged_keeps_its_profiles(
    study: Study, tmp_path: Path
) -> None:
    whole = parts(study, "emulated")
    longer = with_links(tmp_path, "flows: [1, 2, 3], seconds: 1")
    begun = [told(part) for part in whole[:4]]
    opened = open_round(longer, "emulated", HOST, begun)
    assert (opened.repeat, len(opened.missing), opened.superseded) == (1, 3, {})
    complete = open_round(longer, "emulated", HOST, [told(part) for part in whole])
    assert complete.repeat == 2


def test_jobs_without_their_profile_are_left_out(study: Study) -> None:
    links, small, *_ = parts(study, "emulated")
    opened = open_round(study, "emulated", HOST, [landed(links), landed(small)])
    profiled = profiled_curves(opened)
    assert profiled is not None
    assert [curve.dnn for curve in profiled.study.curves] == ["small_cnn"]
    assert profiled_curves(open_round(study, "emulated", HOST, [landed(small)])) is None


def test_synchronous_jobs_count_once_profiled_or_measured(tmp_path: Path) -> None:
    study = read_study(write_study(tmp_path, SYNCHRONOUS))
    fitted, other, judged, unmeasured = (
        [part for part in parts(study, "emulated") if part.curve.dnn == dnn]
        for dnn in ("googlenet", "vgg11", "alexnet", "inception_v3")
    )
    assert len(other) > 1
    assert unmeasured
    runs = [landed(part) for part in (*fitted, *other[:-1], judged[0])]
    profiled = profiled_curves(open_round(study, "emulated", HOST, runs))
    assert profiled is not None
    assert [curve.dnn for curve in profiled.study.curves] == ["googlenet", "alexnet"]


SYNCHRONOUS = """
name: paper
backend: auto
profile: {traced_steps: 2, untraced_steps: 2}
measure: {windows: 1, window_s: 1}
jobs:
""" + "".join(
    f"  - {{dnn: {dnn}, strategy: all_reduce, image_size: 75, batch_size: 4, link_mbps: 1000, "
    f"worker: emu.avx2.c40, fitted: {fitted}, workers: [1, 2]}}\n"
    for dnn, fitted in (
        ("googlenet", "true"),
        ("vgg11", "true"),
        ("alexnet", "false"),
        ("inception_v3", "false"),
    )
)
