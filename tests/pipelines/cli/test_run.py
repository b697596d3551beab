"""`stepcast run`, `plan` and `report`, on probes that run nothing."""

import re
from pathlib import Path

import dagster as dg
import pytest

from tests.pipelines.ran import ASKED, MEASURED, Ran, Stepcast, statuses
from tests.synthetic import ONLY_PROFILES, STUDY, PaperProbes, by_workers, write_study
from warehouse.warehouse import Warehouse


def test_a_run_ends_with_the_table_and_where_things_are(
    first_run: Ran, second_run: tuple[Ran, str]
) -> None:
    answer, home = first_run.answer, first_run.home
    lines = answer.err.splitlines()
    assert lines[0].startswith("study paper, round 1: 7 runs, about ")
    assert lines[1] == "backend loopback: asked for"
    assert lines[2].startswith("warning: loopback shapes no links")
    assert any(re.fullmatch(r"\[ +\d+ s, about .* left\] probe links", line) for line in lines)
    rows = [line for line in answer.printed.splitlines() if "unshaped, W=" in line]
    assert len(rows) == 4
    assert re.search(
        r"small_cnn 16px b4, unshaped, W=2 +\d+\.\d\d +\[[\d., ]+\] +16\.83 +[+−]\d+\.\d % +2\.0 %"
        r" +\+18\.8 % +held out world size",
        rows[1],
    )
    assert re.search(
        r"Mean absolute error over W ≥ 2: \d+\.\d % \(n = 2\); noise floor — \(known from the "
        r"second round on\)",
        answer.printed,
    )
    assert f"report     {home}/report.html" in answer.printed
    assert f"warehouse  {home}/history.duckdb" in answer.printed

    again = second_run[0].answer
    assert again.err.startswith("study paper, round 2: 7 runs")
    uncounted = "No scenario with 2 or more workers counts. Not counted, the host being busy: 2."
    assert uncounted in " ".join(again.printed.split())


def test_a_plan_names_the_systems_that_a_run_fits(
    stepcast: Stepcast, home: Path, first_run: Ran
) -> None:
    plan = stepcast("plan", str(first_run.study)).out
    planned = re.findall(r"^fit (\w+)", plan, re.MULTILINE)
    assert sorted(planned) == sorted({*re.findall(r"\] fit (\w+)", first_run.answer.err)})
    assert "async_sgd" in planned


def test_what_was_interrupted_or_failed_is_one_line_and_is_resumed(
    stepcast: Stepcast, home: Path, study_file: Path, probes: PaperProbes
) -> None:
    def interrupted(scenario: object) -> float:
        raise KeyboardInterrupt

    probes.throughput = interrupted
    answer = stepcast("run", str(study_file), "--backend", "loopback")
    assert answer.code == 130
    assert answer.err.splitlines()[-1] == (
        "stepcast: stopped, and everything torn down; "
        f"`stepcast run {study_file} --backend loopback` resumes with what is missing"
    )
    assert probes.asked == ASKED[:4]
    made_at = Warehouse(home).query("predictions", study="paper", repeat=1)["made_at"].to_list()

    probes.throughput, probes.fail_at, probes.asked = by_workers, MEASURED[-1], []
    answer = stepcast("run", str(study_file))
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.splitlines()[-1] == (
        "stepcast: measure alexnet 64px b4, unshaped, W=3 failed: worker0 of measure alexnet 64px "
        "b4, unshaped, W=3 ended early (exit 1): no paper left; its run has landed"
    )
    assert "Traceback" not in answer.err
    assert probes.asked == MEASURED
    assert statuses(home)[0] == dg.DagsterRunStatus.FAILURE
    plan = stepcast("plan", str(study_file))
    assert plan.err.startswith("study paper, round 1: 1 of 7 runs are missing")

    probes.fail_at, probes.asked = "", []
    assert stepcast("run", str(study_file)).code == 0
    assert probes.asked == MEASURED[-1:]
    assert statuses(home)[0] == dg.DagsterRunStatus.SUCCESS
    runs = Warehouse(home).query("runs", study="paper")
    assert (runs["status"] == "failed").sum() == 1
    assert set(runs["repeat"]) == {1}
    assert (
        Warehouse(home).query("predictions", study="paper", repeat=1)["made_at"].to_list()
        == made_at
    )


def test_a_plan_runs_nothing(
    stepcast: Stepcast, home: Path, study_file: Path, probes: PaperProbes
) -> None:
    assert "measure alexnet 64px b4, unshaped, W=3" in stepcast("plan", str(study_file)).printed
    assert probes.asked == []
    assert list(home.iterdir()) == []


def test_papers_are_of_the_studies_that_have_run(
    stepcast: Stepcast, finished: Ran, study_file: Path, tmp_path: Path
) -> None:
    folder, others = tmp_path / "studies", tmp_path / "others"
    for place in (folder, others):
        place.mkdir()
        text = study_file.read_text().replace("name: paper", "name: other")
        (place / "other.yaml").write_text(text)
    (folder / finished.study.name).write_text(finished.study.read_text())
    page = finished.home / "papers.html"
    assert stepcast("report", str(folder)).out == f"{page}\n"
    text = page.read_text()
    groups = set(re.findall(r'<p class="group">[^<]*: study (\w+), round (\d)</p>', text))
    assert groups == {("paper", "1")}
    assert "Errors by network and batch size" in text
    report = (finished.home / "report.html").read_text()
    assert "Errors by network and batch size" not in report
    none = stepcast("report", str(others))
    assert none.code == 2
    assert "nothing of these studies has run in" in none.err
    assert "Traceback" not in none.err


@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_bad_study_is_one_line_and_exit_2(
    stepcast: Stepcast, home: Path, tmp_path: Path, command: str
) -> None:
    study = write_study(tmp_path, STUDY.replace("dnn: alexnet", "dnn: alexnett"))
    answer = stepcast(command, str(study))
    assert answer.refusal.startswith(f"stepcast: {study}: test[1].dnn: unknown DNN 'alexnett'")


def test_a_study_that_only_profiles_runs_and_has_no_report(
    stepcast: Stepcast, home: Path, tmp_path: Path, probes: PaperProbes
) -> None:
    study = write_study(tmp_path, ONLY_PROFILES)
    answer = stepcast("run", str(study))
    assert answer.printed.splitlines()[0] == (
        "4 profiles of study profiled, round 1, have landed and are loaded"
    )
    assert f"{home}/history.duckdb" in answer.printed
    profiled = ["profile small_cnn", "profile alexnet"]
    assert sorted(probes.asked) == sorted(["links", "contention", *profiled])
    assert Warehouse(home).query("runs", study="profiled").height == 4
    assert not (home / "report.html").exists()
    assert stepcast("report", str(study)).refusal == (
        f"stepcast: {study}: study profiled only profiles; nothing of it is judged"
    )
    again = stepcast("run", str(study))
    assert again.out.startswith("4 profiles of study profiled, round 2, have landed")
