"""Regressions on some runs, judged by the others: splits, figures, and what boxes can tell."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecasting.findings import cross_validation
from forecasting.findings.cross_validation import (
    FAMILIES,
    RANDOM,
    ROWS,
    contest,
    regression,
    score_forecasts,
)
from models.predictddl import as_published, model, work
from models.predictddl.observations import ObservedStep
from models.predictddl.training_set import TrainingSet
from networks.catalogue import family
from tests.models.predictddl import study
from warehouse.records import BadInput, Scenario


@given(count=st.integers(1, 300), parts=st.integers(2, 8))
def test_random_parts_are_as_large_as_can_be_alike(count: int, parts: int) -> None:
    assigned = cross_validation.random_parts(count, parts)
    sizes = Counter(assigned).values()
    assert len(assigned) == count
    assert max(sizes) - min(sizes) <= 1
    assert assigned == cross_validation.random_parts(count, parts)


def test_figures_of_a_group_are_those_by_hand() -> None:
    rows = [("a", RANDOM, "ant", 4, 3.0, 2.0), ("a", RANDOM, "ant", 2, 1.0, 2.0)]
    rows += [("b", RANDOM, "ant", 2, 2.0, 2.0)]
    scores = score_forecasts(pl.DataFrame(rows, schema=ROWS, orient="row"))
    # 1.5 and 0.5 times what was measured, each 1 s off.
    assert scores.rows() == [("a", RANDOM, 2, 1.0, 50.0, 1.0), ("b", RANDOM, 1, 1.0, 0.0, 0.0)]
    workers = score_forecasts(pl.DataFrame(rows, schema=ROWS, orient="row"), "workers")
    assert workers["workers"].to_list() == [2, 2, 4]


def test_too_fast_and_too_slow_do_not_cancel_across_networks() -> None:
    """Half and three halves of the time are 50 % off each, though they are right in the mean."""
    rows = [("a", RANDOM, "ant", 2, 1.0, 2.0), ("a", RANDOM, "bee", 2, 3.0, 2.0)]
    rows += [("a", RANDOM, "bee", 2, 2.0, 2.0), ("a", RANDOM, "ant", 4, 2.2, 2.0)]
    by_servers = score_forecasts(pl.DataFrame(rows, schema=ROWS, orient="row"), "dnn", "workers")
    assert by_servers.select("dnn", "workers", "n").rows() == [
        ("ant", 2, 1),
        ("bee", 2, 2),
        ("ant", 4, 1),
    ]
    two, four = cross_validation.errors_by_servers(by_servers).to_dicts()
    assert (two["networks"], two["n"], four["networks"], four["n"]) == (2, 3, 1, 1)
    assert two["error_percent"] == pytest.approx(100 / 3)
    assert (two["least_percent"], two["most_percent"]) == pytest.approx((25, 50))
    assert (two["lowest"], two["highest"]) == pytest.approx((0.5, 1.25))
    assert four["error_percent"] == pytest.approx(10)


def test_what_is_judged_are_epochs() -> None:
    known = study.known()
    forecasts = cross_validation.forecasts(
        known,
        "a second more",
        lambda _: (
            lambda scenarios: np.array([study.step_s(scenario) + 1 for scenario in scenarios])
        ),
        cross_validation.random_parts(len(known.runs), 5),
        RANDOM,
    )
    measured = [
        run.step_s * 50_000 / run.scenario.workload.batch_size / run.scenario.strategy.workers
        for run in known.runs
    ]
    assert sorted(forecasts["measured_s"]) == pytest.approx(sorted(measured))
    # Fewer images a step are more steps of an epoch, each a second too slow.
    late = {round(s, 3) for s in forecasts["predicted_s"] - forecasts["measured_s"]}
    assert late == {round(50_000 / each / w, 3) for each, w in product((4, 12), (1, 2, 4))}


def test_ours_forecasts_seconds_and_not_their_logarithms() -> None:
    """Runs are what its model of work can tell: a network in the fit is forecast as it is."""
    known = study.known()
    fittings = {
        "ours": cross_validation.fit_logarithms(model.fit_with("none")),
        "log-linear": cross_validation.fit_logarithms(work.fit_log_linear),
    }
    scores = score_forecasts(contest(known, fittings).filter(split=RANDOM))
    own, other = scores.filter(of="ours"), scores.filter(of="log-linear")
    assert own["n"].item() == other["n"].item() == len(known.runs)
    assert own["ratio"].item() == pytest.approx(1, abs=0.1)
    assert other["ratio"].item() == pytest.approx(1, abs=0.3)


def test_each_run_is_forecast_once_by_a_fit_that_did_not_see_it() -> None:
    known = study.known()
    seen: list[set[str]] = []

    def noting(rest: TrainingSet) -> cross_validation.StepForecaster:
        ids = {run.scenario.scenario_id for run in rest.runs}
        seen.append(ids)

        def forecast(scenarios: Sequence[Scenario]) -> cross_validation.Floats:
            assert not ids & {scenario.scenario_id for scenario in scenarios}
            return np.ones(len(scenarios))

        return forecast

    forecasts = contest(known, {"noting": noting})
    counts = dict(forecasts.group_by("split").len().iter_rows())
    assert counts == {RANDOM: len(known.runs), FAMILIES: len(known.runs)}
    assert len(seen) == 5 + len(study.NETWORKS)


def test_sizes_add_nothing_to_names_of_networks_in_the_fit() -> None:
    """Names are columns of their own, of which sizes are sums; unknown networks have no name."""
    boxes = {
        "black": regression(as_published.no_features, "linear", named=True),
        "gray": regression(as_published.size_features, "linear", named=True),
    }
    rows = contest(study.known(), boxes)
    black, gray = (rows.filter(of=name, split=RANDOM)["predicted_s"].to_list() for name in boxes)
    assert gray == pytest.approx(black, rel=1e-6)
    black, gray = (rows.filter(of=name, split=FAMILIES)["predicted_s"].to_list() for name in boxes)
    assert gray != pytest.approx(black, rel=1e-2)


def test_ernest_forecasts_what_is_of_its_terms() -> None:
    """A second, 0.1 s for each image of a server, 0.02 s for each server, of any network."""
    known = study.known()
    runs = [
        ObservedStep(run.scenario, 1 + 0.1 * load.batch_size + 0.02 * run.scenario.strategy.workers)
        for run in known.runs
        for load in (run.scenario.workload,)
    ]
    rows = contest(replace(known, runs=runs), {"ernest": cross_validation.fit_ernest})
    assert (rows["predicted_s"] / rows["measured_s"]).to_list() == pytest.approx([1] * 120)


def test_settings_for_a_family_are_chosen_without_its_quarter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = study.known()
    families = sorted({family(run.scenario.workload.dnn) for run in known.runs})
    seen: list[set[str]] = []
    fit = as_published.PublishedRegressors.fit

    def noting(rest: TrainingSet, *args: Any, **kwargs: Any) -> as_published.PublishedRegressors:
        seen.append({family(run.scenario.workload.dnn) for run in rest.runs})
        return fit(rest, *args, **kwargs)

    monkeypatch.setattr(as_published.PublishedRegressors, "fit", noting)
    parts = cross_validation.family_parts(known)
    fitting = cross_validation.fit_best_by_quarters(known, "linear")
    forecasts = cross_validation.forecasts(known, "linear", fitting, parts, FAMILIES)
    assert forecasts.height == len(known.runs)
    assert len(seen) == 4
    left = [set(families) - kept for kept in seen]
    assert sorted(name for quarter in left for name in quarter) == families
    # As a fit that sees the other runs and chooses anew: nothing is to be chosen here.
    anew = cross_validation.forecasts(
        known, "linear", regression(cross_validation.embedding, "linear"), parts, FAMILIES
    )
    assert forecasts["predicted_s"].to_list() == pytest.approx(anew["predicted_s"].to_list())


def test_what_cannot_be_fitted_is_left_out() -> None:
    def refusing(rest: TrainingSet) -> cross_validation.StepForecaster:
        raise BadInput("too few")

    assert contest(study.known(), {"none": refusing}).is_empty()
    alone = study.known(names=("ant",))
    assert contest(alone, {"ernest": cross_validation.fit_ernest})["split"].unique().to_list() == [
        RANDOM
    ]
