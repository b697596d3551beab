"""From one host to another: how much longer each kind of work takes there.

A step on other hosts is a sum of terms (`models.predictddl.work.TERMS`). Here each term takes
`exp(d)` times as long, where nobody knows `d` before a step was measured here; what nodes can do
(probe `inventory`) has been taken into account already. So a step takes `exp(sum of w d)` times as
long, `w` being the part of each term in the step, and what is left is the network's own. Steps that
were measured here tell of `d`, four of them most of it.

Source: linear regression with normal priors, Rasmussen and Williams, Gaussian Processes for Machine
Learning, section 2.1; the terms and the priors are ours.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from models.predictddl.model import Floats

_APART = 0.3
"""Deviation of `d`: hosts differ by so much in each kind of work, after inventories."""
_OF_NETWORK = 0.5
"""The part of a forecast's variance that runs of one network share."""


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps as they are forecast from other hosts.

    Attributes:
        networks: the name of each step's network.
        parts: of each term in each step: [steps, terms], rows of sum 1.
        deviations: of the logarithm of each step's seconds, as forecast.
    """

    networks: NDArray[np.object_]
    parts: Floats
    deviations: Floats


@dataclass(frozen=True, eq=False)
class Moved:
    """What steps of this host say of forecasts from other hosts.

    Attributes:
        measured: here; there may be none.
        left: logarithm of measured less forecast seconds of each.
    """

    measured: Steps
    left: Floats

    def predict(self, asked: Steps) -> tuple[Floats, Floats]:
        """Return by how much logarithms of seconds change here, and their deviations then."""
        itself = _APART**2 * (asked.parts**2).sum(axis=1) + asked.deviations**2
        if not len(self.left):
            return np.zeros(len(itself)), np.sqrt(itself)
        across = _shared(asked, self.measured)
        explained = (across * scipy.linalg.cho_solve(self._factor, across.T).T).sum(axis=1)
        return across @ self._weights, np.sqrt(np.maximum(itself - explained, 1e-12))

    def times(self) -> Floats:
        """Return how many times as long each kind of work takes here: [terms]."""
        if not len(self.left):
            return np.ones(self.measured.parts.shape[1])
        found: Floats = np.exp(_APART**2 * self.measured.parts.T @ self._weights)
        return found

    @cached_property
    def _factor(self) -> tuple[Floats, bool]:
        covariance = _shared(self.measured, self.measured)
        own = (1 - _OF_NETWORK) * self.measured.deviations**2
        covariance[np.diag_indices_from(covariance)] += own
        factor: tuple[Floats, bool] = scipy.linalg.cho_factor(covariance, lower=True)
        return factor

    @cached_property
    def _weights(self) -> Floats:
        found: Floats = scipy.linalg.cho_solve(self._factor, self.left)
        return found


def _shared(one: Steps, other: Steps) -> Floats:
    """Return what two steps' logarithms have in common: this host, and their network."""
    same = one.networks[:, None] == other.networks[None, :]
    network = _OF_NETWORK * one.deviations[:, None] * other.deviations[None, :] * same
    found: Floats = _APART**2 * one.parts @ other.parts.T + network
    return found
