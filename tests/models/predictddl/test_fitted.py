"""PredictDDL, ours, on made-up runs: who answers, how sure, what is refused, what loads alike."""

import numpy as np
import pytest

from models.predictddl import fitted, log_linear, model
from models.predictddl.fitted import PredictDDL
from models.predictddl.learned import REGRESSORS, GaussianProcess, Rows
from models.predictddl.linear_work import LinearWork
from models.predictddl.model import Model
from models.predictddl.work import TERMS, Work
from models.system import NotCovered
from networks.primitives import Primitive, PrimitiveGraph
from tests.models.predictddl import study
from warehouse.records import BadInput


@pytest.fixture(scope="module")
def answer() -> PredictDDL:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitted, "REGRESSORS", {"none": REGRESSORS["none"]})
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


def test_coefficients_that_are_drawn_a_little_to_zero_forecast_what_was_planted() -> None:
    chance = np.random.default_rng(0)
    planted = np.where(np.arange(len(TERMS)) % 3 == 0, 2.0, 0.0)
    terms = [chance.uniform(0.1, 1, (1, len(TERMS))) for _ in range(200)]
    steps_s = np.array([float((one @ planted)[0]) for one in terms])
    found = LinearWork.fit(terms, steps_s)
    assert (found.coefficients >= 0).all()
    assert found.coefficients[planted > 0].min() > 3 * found.coefficients[planted == 0].max()
    forecast = np.array([found.step_s(one) for one in terms])
    assert np.abs(forecast / steps_s - 1).mean() < 0.06


def test_of_a_mix_the_slowest_group_counts() -> None:
    linear = LinearWork(np.ones(len(TERMS)))
    fast, slow = np.full(len(TERMS), 0.1), np.full(len(TERMS), 0.2)
    assert linear.step_s(np.array([fast, slow])) == pytest.approx(0.2 * len(TERMS))


def test_a_linear_model_says_closed_form_steps_again() -> None:
    known = study.known()
    asked = study.scenarios(workers=(3,))
    found, _ = Model.fit(known, "none").forecast(asked)
    np.testing.assert_allclose(np.exp(found), [study.step_s(one) for one in asked], rtol=0.1)


def test_intervals_of_a_gaussian_process_hold_planted_effects() -> None:
    """Runs of a network err alike: intervals of new networks are as wide as these effects."""
    chance = np.random.default_rng(1)
    effects = chance.normal(0, 0.3, 40)
    names = np.repeat([f"n{place}" for place in range(40)], 5).astype(object)
    kinds = np.repeat(chance.normal(size=(40, 3)), 5, axis=0)
    rows = Rows(names, kinds, chance.normal(size=(200, 2)))
    left = np.repeat(effects, 5) + chance.normal(0, 0.02, 200)
    seen = np.arange(200) < 150
    process = GaussianProcess(rows.taken(seen), left[seen])
    mean, deviation = process.predict(rows.taken(~seen))
    scores = (left[~seen] - mean) / deviation
    assert 0.5 < np.sqrt((scores**2).mean()) < 2
    again, sure = process.predict(rows.taken(seen))
    assert np.abs(again - left[seen]).mean() < 0.03
    assert sure.mean() < deviation.mean() / 3


def test_seen_and_unseen_networks_have_a_regressor_each(answer: PredictDDL) -> None:
    assert answer.who(study.scenario("ant", 3, 8)) == "predictddl"
    assert answer.who(study.scenario("bat", 3, 8)) == answer.parameters.answers
    known = answer.predict([study.scenario("ant", 3, 8)]).row(0, named=True)
    assert known["low"] <= known["value"] <= known["high"]
    assert known["value"] == pytest.approx(study.step_s(study.scenario("ant", 3, 8)), rel=0.1)


def test_a_network_far_from_all_is_refused_with_what_to_measure(answer: PredictDDL) -> None:
    asked = study.scenario(study.FAR, 2, 4)
    apart, _ = answer.distance(asked)
    assert apart > answer.parameters.far
    with pytest.raises(
        NotCovered, match=r"no measured network is like zebra .* list it under train"
    ):
        answer.predict([asked])


def test_log_linear_answers_where_it_was_better_on_families_left_out() -> None:
    def says(error: float) -> model.Fitting:
        return lambda known: (
            lambda asked: (
                np.log([study.step_s(one) for one in asked]) + error,
                np.full(len(asked), 0.1),
            )
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitted, "REGRESSORS", {"none": REGRESSORS["none"]})
        patch.setattr(model, "ours", lambda regressor: says(0.4))
        patch.setattr(log_linear, "fitted", says(0.05))
        found = PredictDDL.fit(study.known())
        assert found.parameters.answers == "log_linear"
        assert found.parameters.left_out["log_linear"] == pytest.approx(0.05)
        unseen = study.scenario("bat", 2, 4)
        assert found.who(unseen) == "log_linear"
        row = found.predict([unseen]).row(0, named=True)
        assert row["value"] == pytest.approx(study.step_s(unseen) * np.exp(0.05))
        patch.setattr(log_linear, "fitted", says(0.5))
        patch.setattr(log_linear, "histogram", says(0.6))
        assert PredictDDL.fit(study.known()).parameters.answers == "predictddl"


def test_one_family_is_not_enough() -> None:
    with pytest.raises(BadInput, match="networks of several families, found 1 of 1"):
        PredictDDL.fit(study.known(("ant",)))


def test_a_more_complicated_regressor_has_to_be_clearly_better() -> None:
    one = np.ones(1)
    tried = {"none": (0.10 * one, one), "trees": (0.099 * one, one)}
    assert model.chosen(tried) == "none"
    assert model.chosen({**tried, "trees": (0.05 * one, one)}) == "trees"


def test_graphs_of_the_moment_do_not_stay(answer: PredictDDL) -> None:
    """Two users may send other networks by one name."""
    key = ("own", study.SIDE)
    first = answer.knowing({key: study.network("bee")}, {})
    second = answer.knowing({key: study.network(study.FAR)}, {})
    asked = study.scenario("own", 2, 4)
    assert first.distance(asked)[0] < 1e-6
    assert second.distance(asked)[0] > answer.parameters.far
