"""A round with reused models: workloads, forecasts by network and servers, and time before them."""

from pathlib import Path

import polars as pl
import pytest

from forecasting.findings import waiting
from forecasting.findings.judged import SCHEMA
from forecasting.findings.left_out import FAMILIES, RANDOM
from forecasting.findings.reuse import Reuse, reuse
from models.predictddl import published
from networks import extraction
from reports.sections import regressions
from reports.sections import reuse as section
from studies.rounds import Round
from tests.forecasting.findings.made_up_round import LAYERS, RUN_S, graphs, judged, landed
from tests.reports.pages import Balanced, cells, headings

FACTORS = {"predictddl": 1.1, "predictddl_paper": 3.0, "ernest_pooled": 0.5}
GRIDS = {
    "polynomial": {},
    "linear": {},
    "svr": {"kernel": ("rbf",), "C": (1.0,), "gamma": (0.05,), "epsilon": (0.1,)},
    "mlp": {"neurons": (1,)},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Round, Path]:
    folder = tmp_path_factory.mktemp("reused") / "landing"
    with pytest.MonkeyPatch.context() as patch:
        return landed(folder, patch), folder


@pytest.fixture(scope="module")
def found(made: tuple[Round, Path]) -> Reuse:
    round_, folder = made
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extraction, "_PRIMITIVES", graphs())
        # A few settings of each kind, which tests can wait for.
        patch.setattr(published, "GRIDS", GRIDS)
        result = reuse(round_, judged(round_, FACTORS), folder)
    assert result is not None
    return result


def test_workloads_are_those_measured_and_how_they_are_known(found: Reuse) -> None:
    rows = {row[0]: row[1:] for row in found.workloads.iter_rows()}
    assert rows == {
        "resnet18": ("resnet", "network", 5, 1),
        "vgg11": ("vgg", "network", 4, 0),
        "squeezenet": ("squeezenet", "neither", 2, 2),
        "mobilenet": ("mobilenet", "neither", 2, 2),
    }


def test_the_ledger_is_taken_as_it_is(found: Reuse) -> None:
    overall = {(row["of"], row["split"]): row for row in found.judged.overall.to_dicts()}
    assert overall.keys() == {(of, s) for of in FACTORS for s in ("seen", "other networks")}
    for (system, split), row in overall.items():
        assert row["n"] == (1 if split == "seen" else 4)
        assert row["ratio"] == pytest.approx(FACTORS[system])
        assert row["error_percent"] == pytest.approx(100 * abs(FACTORS[system] - 1))
    assert (found.noise_floor, found.noise_n) == (None, 0)


def test_regressions_judge_each_run_by_fits_to_others(found: Reuse) -> None:
    tell = found.regressions
    assert tell is not None
    runs = sum(found.workloads["runs"])
    for contest in (tell.boxes, tell.features, tell.beside, tell.kinds):
        assert set(contest.overall["split"]) == {RANDOM, FAMILIES}
        assert set(contest.overall["n"]) == {runs}
        assert set(contest.by_network["dnn"]) == LAYERS.keys()
    assert tell.amounts.overall["of"].to_list() == ["50/50", "67/33", "80/20"]
    assert tell.kinds.overall["of"].n_unique() == 4


def test_runs_that_serve_several_workloads_count_once(made: tuple[Round, Path]) -> None:
    round_, _ = made
    rows = waiting.waiting(round_, judged(round_, FACTORS))
    of = {name: one for (name,), one in rows.group_by("system")}
    train = 8 * RUN_S
    for name in FACTORS:
        assert of[name]["measuring_s"].to_list() == [train] * 3
        assert of[name]["n"].to_list() == [1, 3, 5]
        errors = [100 * abs(FACTORS[name] - 1)] * 3
        assert of[name]["error_percent"].to_list() == pytest.approx(errors)
        assert not of[name]["expected"].any()
    # Ernest is in no list: its own runs are what a plan expects, more with each network.
    ernest = of["ernest"]["measuring_s"].to_list()
    assert 0 < ernest[0] < ernest[1] < ernest[2]
    assert of["ernest"]["expected"].all() and of["ernest"]["n"].to_list() == [0, 0, 0]


def test_sections_say_what_was_found(found: Reuse) -> None:
    html = section.section(found) + regressions.section(found)
    assert not Balanced(html).open
    titles = [title for title in headings(html) if not title.startswith(("In the ledger", "R"))]
    assert titles[:2] == ["Questions about reused models", "Workloads"]
    assert {"Black box and gray box", "Amounts of data", "Time before an answer"} <= set(titles)
    rows = cells(html)
    paper = ["predictddl_paper", "other networks", "the ledger, before it was measured", "4"]
    assert [*paper, "3.00", "200.0 %"] in rows
    ours = next(row for row in rows if row[0] == "predictddl" and row[1] == "80 s")
    assert ours == ["predictddl", "80 s", "80 s", "10.0 %", "5"]
    assert any(row[0] == "ernest *" and row[-2:] == ["—", "0"] for row in rows)


def test_without_a_reused_model_there_is_nothing(made: tuple[Round, Path]) -> None:
    round_, folder = made
    none = pl.DataFrame(schema=SCHEMA)
    assert reuse(round_, none, folder) is None
    assert reuse(round_, judged(round_, {"ernest_pooled": 1.0}), folder) is None
    assert section.section(None) == regressions.section(None) == ""
