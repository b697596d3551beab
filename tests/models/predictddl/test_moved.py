"""From one host to another: planted differences are found, and steps make intervals narrower."""

import numpy as np
import pytest

from models.predictddl import fit
from models.predictddl.fit import ForecastSteps, HostTransfer, PredictDDL
from models.predictddl.observations import ObservedStep
from models.predictddl.residuals import REGRESSORS
from models.predictddl.training_set import TrainingSet
from models.predictddl.work import TERMS
from tests.models.predictddl import study
from warehouse.records import Scenario

PLANTED = np.log([0.7, 1.0, 1.4])


def steps(count: int, seed: int = 0, deviation: float = 0.05) -> ForecastSteps:
    """Return steps of networks of their own, of three kinds of work in any parts."""
    parts = np.random.default_rng(seed).dirichlet(np.ones(3), count)
    names = np.array([f"n{seed}-{place}" for place in range(count)], dtype=object)
    return ForecastSteps(names, parts, np.full(count, deviation))


def test_without_steps_nothing_changes_and_the_parts_say_how_sure_that_is() -> None:
    asked = ForecastSteps(
        np.array(["a", "b"], dtype=object), np.array([[1, 0], [0.5, 0.5]]), np.zeros(2)
    )
    none = ForecastSteps(np.array([], dtype=object), np.zeros((0, 2)), np.zeros(0))
    moved = HostTransfer(none, np.zeros(0))
    change, deviation = moved.predict(asked)
    assert change.tolist() == [0, 0]
    # Two kinds of work that differ independently err less together than one alone.
    assert deviation == pytest.approx([0.3, 0.3 / np.sqrt(2)])
    assert moved.times().tolist() == [1, 1]


def test_planted_differences_are_found_and_intervals_hold() -> None:
    chance = np.random.default_rng(1)
    asked = steps(200, seed=2)
    errors, deviations = {}, {}
    for count in (1, 4, 16, 64):
        measured = steps(count)
        left = measured.parts @ PLANTED + chance.normal(0, 0.05, count)
        change, deviation = HostTransfer(measured, left).predict(asked)
        left_asked = asked.parts @ PLANTED + chance.normal(0, 0.05, 200)
        errors[count] = float(np.abs(left_asked - change).mean())
        deviations[count] = float(deviation.mean())
        assert (np.abs(left_asked - change) < 1.645 * deviation).mean() > 0.75
    assert errors[64] < errors[4] < errors[1]
    assert errors[64] == pytest.approx(0.05 * np.sqrt(2 / np.pi), rel=0.15)
    assert list(deviations.values()) == sorted(deviations.values(), reverse=True)
    times = HostTransfer(steps(64), steps(64).parts @ PLANTED).times()
    assert times == pytest.approx(np.exp(PLANTED), rel=0.1)


def test_a_step_tells_most_of_its_own_network() -> None:
    one = ForecastSteps(np.array(["a"], dtype=object), np.array([[0.5, 0.5]]), np.array([0.2]))
    moved = HostTransfer(one, np.array([0.4]))
    same, sure = moved.predict(one)
    other, unsure = moved.predict(
        ForecastSteps(np.array(["b"], dtype=object), one.parts, one.deviations)
    )
    assert 0.4 > same[0] > other[0] > 0
    assert sure[0] < unsure[0]


def elsewhere(scenario: Scenario) -> Scenario:
    """Return training on nodes of that name on another host."""
    nodes = tuple(
        node.model_copy(update={"node_type": node.node_type + "@5e1f5e1f"})
        for node in scenario.nodes
    )
    return scenario.model_copy(update={"nodes": nodes})


def known(*own: ObservedStep) -> TrainingSet:
    """Return many runs of another host, whose nodes do what ours can do, and some of this one."""
    measured = {**study.MEASURED, **{f"{name}@5e1f5e1f": of for name, of in study.MEASURED.items()}}
    others = [
        ObservedStep(elsewhere(scenario), study.step_s(scenario)) for scenario in study.scenarios()
    ]
    return TrainingSet([*others, *own], measured, study.graphs, study.known().embedder)


def slower(scenario: Scenario) -> ObservedStep:
    """Return a step that takes half as long again here."""
    return ObservedStep(scenario, 1.5 * study.step_s(scenario))


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "REGRESSORS", {"none": REGRESSORS["none"]})


@pytest.mark.usefixtures("plain")
def test_a_few_steps_correct_what_other_hosts_tell() -> None:
    asked = study.scenario("elk", 2, 12)
    rows = {}
    for names in ((), ("ant",), ("ant", "bee", "cow")):
        own = [slower(study.scenario(dnn, 2, 4)) for dnn in names]
        found = PredictDDL.fit(known(*own))
        row = rows[len(names)] = found.predict([asked]).row(0, named=True)
        assert row["low"] < row["value"] < row["high"]
        times = found.parameters.times
        assert times is not None
        assert times.keys() == set(TERMS)
        loaded = PredictDDL(known(*own), found.parameters).predict([asked])
        assert loaded.row(0, named=True) == row
        served = found.knowing({}, {}).predict([asked])
        assert served.row(0, named=True)["value"] == pytest.approx(row["value"])
    true_s = 1.5 * study.step_s(asked)
    off = {count: abs(np.log(row["value"] / true_s)) for count, row in rows.items()}
    assert off[0] == pytest.approx(np.log(1.5), rel=0.1)
    assert max(off[1], off[3]) < 0.1
    widths = [row["high"] / row["low"] for row in rows.values()]
    assert widths == sorted(widths, reverse=True)
    assert rows[3]["low"] < true_s < rows[3]["high"]


def test_one_family_of_another_host_is_not_learned_from() -> None:
    of_ant = known(*[slower(scenario) for scenario in study.scenarios()]).without(
        lambda one: (
            one.scenario.worker_groups[0].node_type.endswith("@5e1f5e1f")
            and one.scenario.workload.dnn != "ant"
        )
    )
    assert not of_ant.is_moved
    assert of_ant.source is of_ant
