"""PredictDDL as published: its grids, and what its regressors see of networks and clusters."""

import numpy as np
import pytest

from models.predictddl import as_published
from models.predictddl.as_published import GRIDS, PublishedRegressors
from tests.models.predictddl import study


def test_grids_are_those_of_section_iv_b2() -> None:
    assert GRIDS["svr"] == {
        "kernel": ("rbf", "linear"),
        "C": (1, 10, 100, 1000),
        "gamma": (0.05, 0.1, 0.25, 0.5),
        "epsilon": (0.05, 0.1, 0.2),
    }
    assert GRIDS["mlp"] == {"neurons": (1, 2, 3, 4, 5)}
    assert GRIDS["polynomial"] == GRIDS["linear"] == {}


def test_features_of_a_cluster_are_sums_over_its_servers() -> None:
    known, scenario = study.known(), study.scenario("ant", 4, 12, "slow")
    seen: list[np.ndarray] = []

    def forecast(rows: np.ndarray) -> np.ndarray:
        seen.append(rows)
        return np.full(len(rows), 100.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PublishedRegressors, "_forecast", staticmethod(forecast))
        choice = as_published.RegressorChoice(kind="linear", settings={}, error=0.0)
        made = PublishedRegressors(known, as_published.size_features, named=False, choice=choice)
        (step_s,) = made.steps_s([scenario])
    graph = study.network("ant")
    layers = sum(node.parameters > 0 for node in graph.nodes)
    # Servers, then cores, memory, storage throughput and operations a second of all; the batch.
    cluster = [4, 4 * 0.5, 4 * 2**30, 4 * 1e8, 4 * 4e9, 12]
    assert seen[0].tolist() == [[layers, graph.parameter_count, *cluster]]
    assert step_s == pytest.approx(100 * 48 / 50_000)


def test_kinds_are_compared_on_networks_that_did_not_choose_their_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By hand: settings are chosen of the other networks, which then forecast those left out."""
    grid = {"kernel": ("rbf",), "C": (1.0, 1000.0), "gamma": (0.05, 0.5), "epsilon": (0.1,)}
    monkeypatch.setitem(GRIDS, "svr", grid)
    known = study.known(effects={"bee": 1.5, "dog": -1.0}, noise=0.5)
    of_kinds = as_published.best_of_kinds(known, as_published.size_features, ("linear", "svr"))
    by_kind = {best.kind: best for best in of_kinds}
    of_all = PublishedRegressors.fit(known, as_published.size_features, kinds=("svr",)).choice
    errors: list[float] = []
    settings = []
    for fold in (study.NETWORKS[first::4] for first in range(4)):
        out = [run for run in known.runs if run.scenario.workload.dnn in fold]
        rest = known.without(lambda run, fold=fold: run.scenario.workload.dnn in fold)  # type: ignore[misc]
        own = PublishedRegressors.fit(rest, as_published.size_features, kinds=("svr",))
        settings.append(own.choice.settings)
        steps_s = own.steps_s([run.scenario for run in out])
        errors += [abs(s / run.step_s - 1) for s, run in zip(steps_s, out, strict=True)]
    assert any(setting != of_all.settings for setting in settings)
    assert by_kind["svr"].settings == of_all.settings
    assert by_kind["svr"].error == pytest.approx(np.mean(errors)) != of_all.error
    # Nothing is to be chosen of a linear regression, so its error is the same both ways.
    alone = PublishedRegressors.fit(known, as_published.size_features, kinds=("linear",)).choice
    assert by_kind["linear"] == alone
