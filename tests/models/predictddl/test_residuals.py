"""Regressors of what a linear model leaves."""

import numpy as np
import pytest

from models.predictddl.residuals import RunFeatures, TwoLevelTrees


def test_trees_learn_a_threshold_that_networks_share() -> None:
    """A network that was left out is on one side of it too, so the deviation is small."""
    networks = np.repeat(np.arange(20), 4)
    above = networks % 2 == 0
    rows = RunFeatures(
        networks.astype(object),
        np.where(above, 1.0, -1.0)[:, None],
        np.tile([[1.0], [2.0]], (40, 1)),
    )
    trees = TwoLevelTrees(rows, np.where(above, 0.5, -0.5))
    mean, deviation = trees.predict(rows.taken(np.array([0, 4])))
    assert mean == pytest.approx([0.5, -0.5], abs=0.05)
    assert (deviation < 0.05).all()


def test_the_deviation_of_trees_is_that_of_networks_left_out() -> None:
    """What each network has by itself, nothing tells of one that was left out."""
    chance = np.random.default_rng(0)
    networks = np.repeat(np.arange(40), 4)
    own = 0.5 * chance.choice([-1.0, 1.0], 40)[networks]
    rows = RunFeatures(
        networks.astype(object), chance.normal(size=40)[networks][:, None], np.ones((160, 1))
    )
    trees = TwoLevelTrees(rows, own)
    mean, deviation = trees.predict(rows)
    assert np.abs(own - mean).mean() < 0.4
    assert (deviation > 0.45).all()
