"""The report is one file that needs nothing else, and says what the round found."""

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from matplotlib.lines import Line2D

from forecasting.evaluation import STANDING, Evaluation, OpeningFigures
from forecasting.results import JUDGED, summary, titles
from reports import report
from reports.report import errors_plot, left_out_lines, sealed_sentence
from studies.rounds import Round
from tests.reports.pages import Page, cells
from tests.synthetic import STUDY, PaperProbes


def results(round_: Round, **changes: object) -> pl.DataFrame:
    """Return results in which every scenario was judged alike, but for its error."""
    scenarios = [
        scenario for curve in round_.study.curves for scenario in curve.scenarios("loopback")
    ]
    curves = [index for index, curve in enumerate(round_.study.curves) for _ in curve.workers]
    rows = [
        {
            "curve": curve,
            "title": titles(round_.study, "loopback")[curve],
            "label": scenario.label,
            "dnn": scenario.workload.dnn,
            "link_mbps": None,
            "workers": scenario.strategy.workers,
            "scenario_id": scenario.scenario_id,
            "predicted": 9.5 + place,
            "low": 9.0,
            "high": 10.0,
            "measured": 10.0,
            "error_percent": -5.0 + 10 * place,
            "spread_percent": 2.0,
            "split": "held_out_world_size",
            "host_busy": False,
            "noise_floor_percent": None,
            "noise_runs": 0,
            "system": "async_sgd",
            "forecast_round": 1,
            "made": "before",
            "linear": 12.0,
            "linear_error_percent": 20.0,
        }
        | changes
        for place, (curve, scenario) in enumerate(zip(curves, scenarios, strict=True))
    ]
    return pl.DataFrame(rows, schema_overrides={**JUDGED, **STANDING})


def systems() -> pl.DataFrame:
    """Return two systems, of which one says nothing about alexnet."""
    rows = [
        ("async_sgd", "alexnet", 1.0, 1, 4.25),
        ("async_sgd", "small_cnn", 2.0, 1, 2.25),
        ("async_sgd", None, 1.5, 2, 3.25),
        ("lin", "small_cnn", None, 1, 12.25),
        ("lin", None, None, 1, 12.25),
    ]
    columns = ["system", "dnn", "w1_error_percent", "n", "mean_ape_percent"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def evaluation(round_: Round, **changes: object) -> Evaluation:
    """Return the evaluation of a round in which every scenario was judged so."""
    return Evaluation(round_, results(round_, **changes), systems())


@pytest.fixture(scope="module")
def html(landed_once: Callable[[str], tuple[Round, Path]]) -> str:
    """Return the report of these results."""
    round_, _ = landed_once(STUDY)
    with pytest.MonkeyPatch.context() as patch:
        PaperProbes().install(patch)
        return report.render(evaluation(round_))


def test_networks_are_rows_and_systems_columns(html: str) -> None:
    """However many networks a study has, the table is as wide as it has systems."""
    (section,) = re.findall(r"All systems, by network</h2>(.*?)</table>", html, re.DOTALL)
    rows = cells(section)
    systems = rows[0].index("async_sgd"), rows[0].index("lin")
    assert [[row[0], *(row[place] for place in systems)] for row in rows] == [
        ["network", "async_sgd", "lin"],
        ["alexnet", "4.2 %", "—"],
        ["small_cnn", "2.2 %", "12.2 %"],
        ["all", "3.2 %", "12.2 %"],
        ["scenarios", "2", "1"],
        ["one worker", "+1.5 %", "—"],
    ]


def test_the_report_loads_nothing(html: str) -> None:
    page = Page(html)
    assert page.open == []
    loading = {"src", "srcset", "data", "action", "poster", "background"}
    assert not [attribute for attribute in page.attributes if attribute[1] in loading]
    links = [value for _, name, value in page.attributes if name in ("href", "xlink:href")]
    assert all(value.startswith(("#", "data:image/png;")) for value in links)
    assert {tag for tag, *_ in page.attributes}.isdisjoint({"link", "iframe", "img"})
    assert "@import" not in html
    assert not re.findall(r"url\((?!#)", html)
    spaces = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r"https?://[^\"'\s<)]+", html)) <= spaces


def test_no_script_runs_but_the_page_s_own(html: str) -> None:
    """The page names its one script by hash, and browsers run no other."""
    (script,) = re.findall(r"<script[^>]*>(.*?)</script>", html, re.DOTALL)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', html)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert re.search(r"\b(fetch|import|XMLHttpRequest|eval|innerHTML)\b", script) is None
    assert not [attribute for attribute in Page(html).attributes if attribute[1].startswith("on")]


def test_every_section_is_in_the_contents(html: str) -> None:
    page = Page(html)
    links = [value[1:] for tag, name, value in page.attributes if (tag, name) == ("a", "href")]
    keys = [value for tag, name, value in page.attributes if (tag, name) == ("div", "id")]
    assert links == keys
    assert len(set(keys)) == len(keys) == 5
    assert html.count('<details class="section">') == len(keys)
    assert "<details open" not in html
    opening, _, _ = html.partition("<nav")
    assert opening.count("<svg") == opening.count("<figure") == 1
    assert opening.count("<dd>") == 3
    assert "<table" not in opening


def test_the_report_shows_every_scenario(html: str, round_: Round) -> None:
    text = Page(html).text
    for scenario in [
        scenario for curve in round_.study.curves for scenario in curve.scenarios("loopback")
    ]:
        assert scenario.label in text
    for figure in ("−5.0 %", "+5.0 %", "+15.0 %", "[9.00, 10.00]", "held out world size", "2.0 %"):
        assert figure in text
    noise = "noise floor — (known from the second round on)"
    made = "forecasts made before the run, not published"
    alone = "left out: 2 of one worker; with these 12.5 %, n = 4"
    assert f"Mean absolute error, W ≥ 215.0 %n = 2; {noise}{alone}{made}" in text
    assert f"Nine of ten are off by at most23.0 %n = 2; {noise}{made}" in text
    few = "2 of 2nine of ten are expected; 2 of 2"
    assert f"Measured inside the 90 % interval{few}{made}" in text
    sentence = "With several workers, forecasts by async_sgd are off by 15.0 % in the mean; linear"
    assert sentence in text


def test_plots_can_be_read_without_seeing_them(html: str) -> None:
    assert html.count('<svg role="img"') == html.count("<title>") - 1 == 3
    titles = re.findall(r"<title>(steps/s of all workers by[^<]*)</title>", html)
    assert titles[0] == (
        "steps/s of all workers by number of workers, small_cnn 16px b4, unshaped. 1 worker: 9.50 "
        "predicted, 10.00 measured; 2 workers: 10.50 predicted, 10.00 measured"
    )
    assert "currentColor" in html
    assert "prefers-color-scheme: dark" in html


def test_the_report_warns(html: str, round_: Round) -> None:
    quiet = Page(html).text
    assert "no accuracy is claimed" in quiet
    assert "host itself was busy" not in quiet
    busy = Page(report.render(evaluation(round_, host_busy=True))).text
    assert "host itself was busy" in busy


def test_what_was_not_measured_is_a_dash(round_: Round) -> None:
    missing = dict.fromkeys(("measured", "error_percent", "spread_percent", "split", "made"))
    text = Page(report.render(evaluation(round_, **missing))).text
    assert "W ≥ 2—n = 0; noise floor" in text
    assert "nothing judged" in text
    assert "4 of 4 scenarios are forecast; none with several workers has been judged." in text


def test_text_is_escaped(round_: Round) -> None:
    evil = round_.study.model_copy(update={"description": "<script>alert(1)</script> & $name"})
    text = report.render(evaluation(replace(round_, study=evil)))
    assert "<script>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; $name" in text


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((0, 0, 0), "nothing judged"),
        (
            (3, 2, 1),
            "forecasts: 3 published before measuring; 2 made before the run, not published; "
            "1 made after the fact, from profiles",
        ),
    ],
)
def test_forecasts_are_sealed_or_not(counts: tuple[int, int, int], said: str) -> None:
    opening = OpeningFigures((), None, 0, 0, *counts, points=pl.DataFrame())
    assert sealed_sentence(opening) == said


def test_what_the_mean_leaves_out_is_said_with_the_mean_of_all() -> None:
    """Eight of the grid's eighty have one worker, and another page counts all of them."""
    rows = pl.DataFrame(
        {
            "workers": [1, 2, 2, 4],
            "error_percent": [50.0, 4.0, -6.0, 20.0],
            "linear_error_percent": [None, 1.0, 1.0, 1.0],
            "host_busy": [False, False, False, True],
            "noise_floor_percent": [None, None, None, None],
        },
        schema_overrides={"noise_floor_percent": pl.Float64},
    )
    headline = summary(rows)
    assert headline.error == 5.0
    assert list(left_out_lines(rows, headline)) == [
        "left out: 1 of one worker and 1 measured while the host was busy; with these 20.0 %, n = 4"
    ]
    counted = rows.filter(pl.col("workers") == 2)
    assert list(left_out_lines(counted, summary(counted))) == []


POINTS = pl.DataFrame(
    {
        "workers": [2, 2, 8],
        "dnn": ["a", "b", "a"],
        "error_percent": [-4.0, 5.0, 400.0],
        "linear_error_percent": [30.0, None, -60.0],
    }
)


def heights(line: Line2D) -> list[float]:
    """Return the heights of a line's points."""
    return [float(height) for height in np.asarray(line.get_ydata(), float)]


def test_each_scenario_is_a_point_where_its_error_is() -> None:
    (axes,) = errors_plot(POINTS, "linear scaling").axes
    _, linear, forecast = axes.lines
    assert heights(forecast) == [-4.0, 5.0, 150.0]
    assert heights(linear) == [30.0, -60.0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["2", "8"]
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["forecast", "linear scaling"]
