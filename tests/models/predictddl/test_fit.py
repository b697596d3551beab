"""PredictDDL, ours, on made-up runs: who answers, how sure, what is refused, what loads alike."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from models.predictddl import fit, model
from models.predictddl.fit import ForecastSteps, HostTransfer, PredictDDL
from models.predictddl.model import WorkModel
from models.predictddl.observations import ObservedStep
from models.predictddl.residuals import REGRESSORS
from models.predictddl.training_set import TrainingSet
from models.predictddl.work import Work
from models.system import NotCovered
from networks.primitives import Primitive, PrimitiveGraph
from tests.models.predictddl import study
from warehouse.records import BadInput, Scenario


@pytest.fixture(autouse=True, scope="module")
def one_regressor() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit, "REGRESSORS", {"none": REGRESSORS["none"]})
        yield


@pytest.fixture(scope="module")
def answer() -> PredictDDL:
    return PredictDDL.fit(study.known())


def test_the_work_of_a_graph_is_counted_by_hand() -> None:
    nodes = (
        Primitive("input", output_elements=10),
        Primitive("conv", 5, 100, 20, 9),
        Primitive("conv", 7, 40, 20, 1),
        Primitive("depthwise_conv", 1, 8, 20, 9),
        Primitive("batch_norm", 2, 0, 20),
        Primitive("bias", 1, 0, 20),
    )
    work = Work.of(PrimitiveGraph("x", 32, nodes, ((0, 1), (1, 2), (0, 3)), 13))
    assert (work.dense, work.pointwise, work.depthwise, work.flops) == (140, 40, 8, 148)
    assert (work.repeated, work.parameters, work.depth) == (7, 13, 2)
    assert (work.elements, work.activations) == (90, 110)
    assert (work.convolved, work.normalized, work.nodes) == (60, 20, 4)


def test_a_linear_model_says_closed_form_steps_again() -> None:
    known = study.known()
    scenarios = study.scenarios(workers=(3,))
    log_steps, _ = WorkModel.fit(known, "none").forecast(scenarios)
    np.testing.assert_allclose(
        np.exp(log_steps), [study.step_s(scenario) for scenario in scenarios], rtol=0.1
    )


def test_beyond_families_left_out_intervals_widen_with_the_distance(answer: PredictDDL) -> None:
    """Attention takes a share of a network; the more it is, the further off is the network."""
    far = answer.parameters.far
    scenario = study.scenario("own", 2, 4)
    pairs = []
    for share in range(12):
        graph = study.network("ant", attention=share)
        extended = answer.with_graphs({("own", study.SIDE): graph}, {})
        apart, _ = extended.distance(scenario)
        if apart <= far:
            row = extended.predict([scenario]).row(0, named=True)
            pairs.append((apart, np.log(row["high"] / row["low"])))
    apart, widths = np.array(pairs).T
    assert apart.min() < far / 1.5 < apart.max()
    np.testing.assert_allclose(widths / widths[0], np.maximum(1, apart * 1.5 / far))


def test_on_a_type_without_steps_intervals_are_those_of_types_left_out(answer: PredictDDL) -> None:
    measured = {**study.MEASURED, "other": study.MEASURED["slow"]}
    extended = answer.with_graphs({}, measured)
    elsewhere = answer.parameters.elsewhere
    assert elsewhere is not None
    halves = {}
    for dnn, node_type in product(("ant", "bat"), ("slow", "other")):
        row = extended.predict([study.scenario(dnn, 2, 4, node_type)]).row(0, named=True)
        halves[dnn, node_type] = np.log(row["high"] / row["low"]) / 2
        assert row["value"] == pytest.approx(np.sqrt(row["low"] * row["high"]))
    assert halves["ant", "other"] == pytest.approx(max(halves["ant", "slow"], elsewhere))
    assert halves["bat", "other"] == pytest.approx(np.hypot(halves["bat", "slow"], elsewhere))
    lucky = replace(
        extended,
        parameters=answer.parameters.model_copy(update={"elsewhere": halves["ant", "slow"] / 9}),
    )
    row = lucky.predict([study.scenario("ant", 2, 4, "other")]).row(0, named=True)
    assert np.log(row["high"] / row["low"]) / 2 == pytest.approx(halves["ant", "slow"])


def test_a_network_far_from_all_is_refused_with_what_to_measure(answer: PredictDDL) -> None:
    scenario = study.scenario(study.FAR, 2, 4)
    apart, _ = answer.distance(scenario)
    assert apart > answer.parameters.far
    with pytest.raises(
        NotCovered, match=r"no measured network is like zebra .* list it under train"
    ):
        answer.predict([scenario])


def says(error: float) -> model.Fitting:
    """Return what forecasts with this error of logarithms, of all families alike."""
    return lambda known: (
        lambda scenarios: (
            np.log([study.step_s(scenario) for scenario in scenarios]) + error,
            np.full(len(scenarios), 0.1),
        )
    )


@pytest.mark.parametrize(
    ("ours", "log_linear_s", "histogram", "answers"),
    [
        (0.4, 0.05, 0.6, "log_linear"),
        (0.4, 0.6, 0.05, "histogram"),
        (0.1, 0.2, 0.05, "histogram"),
        (0.1, 0.5, 0.6, "predictddl"),
    ],
)
def test_the_best_answers_for_families_left_out(
    ours: float, log_linear_s: float, histogram: float, answers: str
) -> None:
    others = {"log_linear": says(log_linear_s), "histogram": says(histogram)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit, "BASELINES", others)
        patch.setattr(model, "fit_with", lambda regressor: says(ours))
        fitted = PredictDDL.fit(study.known())
        unseen = study.scenario("bat", 2, 4)
        row = fitted.predict([unseen]).row(0, named=True)
    assert fitted.parameters.answers == fitted.answered_by(unseen) == answers
    assert fitted.parameters.left_out["log_linear"] == pytest.approx(log_linear_s)
    if answers != "predictddl":
        error = {"log_linear": log_linear_s, "histogram": histogram}[answers]
        assert row["value"] == pytest.approx(study.step_s(unseen) * np.exp(error))


def test_one_family_is_not_enough() -> None:
    with pytest.raises(BadInput, match="networks of two families or more, found only ant;"):
        PredictDDL.fit(study.known(("ant",)))


def test_graphs_of_the_moment_do_not_stay(answer: PredictDDL) -> None:
    """Two users may send other networks by one name."""
    key = ("own", study.SIDE)
    first = answer.with_graphs({key: study.network("bee")}, {})
    second = answer.with_graphs({key: study.network(study.FAR)}, {})
    scenario = study.scenario("own", 2, 4)
    assert first.distance(scenario)[0] < 1e-6
    assert second.distance(scenario)[0] > answer.parameters.far


PLANTED = np.log([0.7, 1.0, 1.4])


def steps(count: int, seed: int = 0, deviation: float = 0.05) -> ForecastSteps:
    """Return steps of networks of their own, of three kinds of work in any parts."""
    parts = np.random.default_rng(seed).dirichlet(np.ones(3), count)
    names = np.array([f"n{seed}-{place}" for place in range(count)], dtype=object)
    return ForecastSteps(names, parts, np.full(count, deviation))


def test_without_steps_nothing_changes_and_the_parts_say_how_sure_that_is() -> None:
    target = ForecastSteps(
        np.array(["a", "b"], dtype=object), np.array([[1, 0], [0.5, 0.5]]), np.zeros(2)
    )
    none = ForecastSteps(np.array([], dtype=object), np.zeros((0, 2)), np.zeros(0))
    moved = HostTransfer(none, np.zeros(0))
    change, deviation = moved.predict(target)
    assert change.tolist() == [0, 0]
    # Two kinds of work that differ independently err less together than one alone.
    assert deviation == pytest.approx([0.3, 0.3 / np.sqrt(2)])


def test_planted_differences_are_found_and_intervals_hold() -> None:
    chance = np.random.default_rng(1)
    target = steps(200, seed=2)
    errors, deviations = {}, {}
    for count in (1, 4, 16, 64):
        measured = steps(count)
        left = measured.parts @ PLANTED + chance.normal(0, 0.05, count)
        change, deviation = HostTransfer(measured, left).predict(target)
        left_target = target.parts @ PLANTED + chance.normal(0, 0.05, 200)
        errors[count] = float(np.abs(left_target - change).mean())
        deviations[count] = float(deviation.mean())
        assert (np.abs(left_target - change) < 1.645 * deviation).mean() > 0.75
    assert errors[64] < errors[4] < errors[1]
    assert errors[64] == pytest.approx(0.05 * np.sqrt(2 / np.pi), rel=0.15)
    assert list(deviations.values()) == sorted(deviations.values(), reverse=True)


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


def test_a_few_steps_correct_what_other_hosts_tell() -> None:
    scenario = study.scenario("elk", 2, 12)
    rows = {}
    for names in ((), ("ant",), ("ant", "bee", "cow")):
        own = [slower(study.scenario(dnn, 2, 4)) for dnn in names]
        fitted = PredictDDL.fit(known(*own))
        row = rows[len(names)] = fitted.predict([scenario]).row(0, named=True)
        assert row["low"] < row["value"] < row["high"]
        loaded = PredictDDL(known(*own), fitted.parameters).predict([scenario])
        assert loaded.row(0, named=True) == row
        served = fitted.with_graphs({}, {}).predict([scenario])
        assert served.row(0, named=True)["value"] == pytest.approx(row["value"])
    true_s = 1.5 * study.step_s(scenario)
    off = {count: abs(np.log(row["value"] / true_s)) for count, row in rows.items()}
    assert off[0] == pytest.approx(np.log(1.5), rel=0.1)
    assert max(off[1], off[3]) < 0.1
    widths = [row["high"] / row["low"] for row in rows.values()]
    assert widths == sorted(widths, reverse=True)
    assert rows[3]["low"] < true_s < rows[3]["high"]
