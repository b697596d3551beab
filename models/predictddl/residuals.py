"""What is left of a logarithm of seconds when a linear model has been taken off: regressors.

Each takes rows of features, with the network of each row by name, and says how sure it is. A
Gaussian process knows that runs of one network err alike; boosted trees know nothing of that.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RunFeatures:
    """Features of runs.

    Attributes:
        networks: the name of each row's network.
        kinds: [rows, k], of the network.
        setups: [rows, s], of how and where it trains.
    """

    networks: NDArray[np.object_]
    kinds: Floats
    setups: Floats

    def __len__(self) -> int:
        return len(self.networks)

    def taken(self, which: NDArray[np.bool_]) -> "RunFeatures":
        """Return some of the rows."""
        return RunFeatures(self.networks[which], self.kinds[which], self.setups[which])


class Regressor(Protocol):
    """A regressor that was fitted."""

    def predict(self, rows: RunFeatures) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of each row."""


class NoResidual:
    """Leaves nothing to explain; its deviation is that of what it was fitted to."""

    def __init__(self, rows: RunFeatures, left: Floats) -> None:
        self._deviation = float(np.sqrt((left**2).mean()))

    def predict(self, rows: RunFeatures) -> tuple[Floats, Floats]:
        """Return zeros and one deviation."""
        return np.zeros(len(rows)), np.full(len(rows), self._deviation)


class GaussianProcess:
    """Runs err alike that are of one network, of networks of one kind, or in setups of one kind.

    The covariance is the sum of three such parts and noise; how large and how wide they are is most
    likely for the rows, drawn a little towards what is usual.

    Source: Rasmussen and Williams, Gaussian Processes for Machine Learning, chapters 2 and 5.
    """

    _USUAL = np.log(np.array([0.15, 0.15, 0.08, 0.05, 1.5, 1.5]))
    """Deviations of a network, of its kind, of setups, of noise; widths of kinds and setups."""
    _DRAWN = np.array([0.8, 0.8, 0.8, 0.6, 0.5, 0.5])
    _STEPS = 30

    def __init__(self, rows: RunFeatures, left: Floats) -> None:
        self._rows = rows
        self._kinds = _scale(rows.kinds)
        self._setups = _scale(rows.setups)
        self._apart = self._distances(rows)
        optimum = scipy.optimize.minimize(
            self._unlikeliness,
            self._USUAL,
            (left,),
            method="L-BFGS-B",
            options={"maxiter": self._STEPS},
        )
        self._theta = np.asarray(optimum.x)
        self._factor = scipy.linalg.cho_factor(self._noisy(self._theta), lower=True)
        self._weights = scipy.linalg.cho_solve(self._factor, left)

    def predict(self, rows: RunFeatures) -> tuple[Floats, Floats]:
        """Return mean and standard deviation, noise included."""
        across = _covariance(self._distances(rows), self._theta)
        itself = np.exp(2 * self._theta[:3]).sum() + _noise(self._theta)
        explained = (across * scipy.linalg.cho_solve(self._factor, across.T).T).sum(axis=1)
        return across @ self._weights, np.sqrt(np.maximum(itself - explained, 1e-12))

    def _distances(self, rows: RunFeatures) -> tuple[Floats, Floats, Floats]:
        """Return which rows are of one network, and squared distances, to those fitted to."""
        fitted = self._rows
        return (
            (rows.networks[:, None] == fitted.networks[None, :]).astype(np.float64),
            _squares(rows.kinds, fitted.kinds, self._kinds),
            _squares(rows.setups, fitted.setups, self._setups),
        )

    def _noisy(self, theta: Floats) -> Floats:
        covariance = _covariance(self._apart, theta)
        covariance[np.diag_indices_from(covariance)] += _noise(theta)
        return covariance

    def _unlikeliness(self, theta: Floats, left: Floats) -> float:
        try:
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                factor = scipy.linalg.cho_factor(self._noisy(theta), lower=True)
        except ValueError:  # no covariance, or a search that left what numbers can say
            return 1e10
        fit = 0.5 * left @ scipy.linalg.cho_solve(factor, left)
        size = np.log(np.diag(factor[0])).sum()
        usual = 0.5 * (((theta - self._USUAL) / self._DRAWN) ** 2).sum()
        return float(fit + size + usual)


def _noise(theta: Floats) -> float:
    return float(np.exp(2 * theta[3])) + 1e-8


def _covariance(apart: tuple[Floats, Floats, Floats], theta: Floats) -> Floats:
    network, kind, setup, _ = np.exp(2 * theta[:4])
    of_kind, of_setup = np.exp(2 * theta[4:])
    same, kinds, setups = apart
    near = np.exp(kinds * (-0.5 / of_kind))
    covariance: Floats = network * same + near * (kind + setup * np.exp(setups * (-0.5 / of_setup)))
    return covariance


class TwoLevelTrees:
    """Boosted trees of two levels; their deviation is that of rows left out by network."""

    _PARAMETERS: Mapping[str, float | int | str] = {
        "objective": "reg:squarederror",
        "max_depth": 2,
        "eta": 0.1,
        "lambda": 3.0,
        "subsample": 0.8,
        "seed": 0,
        "nthread": 1,
    }
    _ROUNDS = 80

    def __init__(self, rows: RunFeatures, left: Floats) -> None:
        self._model = self._fitted(rows, left)
        errors = []
        for network in dict.fromkeys(rows.networks):
            out = rows.networks == network
            if out.all():
                continue
            model = self._fitted(rows.taken(~out), left[~out])
            errors.append(left[out] - self._predicted(model, rows.taken(out)))
        pooled = np.concatenate(errors) if errors else left
        self._deviation = float(np.sqrt((pooled**2).mean()))

    def predict(self, rows: RunFeatures) -> tuple[Floats, Floats]:
        """Return the trees' sums and one deviation."""
        return self._predicted(self._model, rows), np.full(len(rows), self._deviation)

    def _fitted(self, rows: RunFeatures, left: Floats) -> object:
        import xgboost

        data = xgboost.DMatrix(np.hstack([rows.kinds, rows.setups]), left)
        return xgboost.train({**self._PARAMETERS, "base_score": 0.0}, data, self._ROUNDS)

    @staticmethod
    def _predicted(model: object, rows: RunFeatures) -> Floats:
        import xgboost

        assert isinstance(model, xgboost.Booster)
        predicted = model.predict(xgboost.DMatrix(np.hstack([rows.kinds, rows.setups])))
        return np.asarray(predicted, np.float64)


REGRESSORS: Mapping[str, Callable[[RunFeatures, Floats], Regressor]] = {
    "none": NoResidual,
    "gaussian_process": GaussianProcess,
    "trees": TwoLevelTrees,
}


def _scale(features: Floats) -> Floats:
    """Return the standard deviation of each feature, so that distances are in those, of all."""
    spread = features.std(axis=0)
    return np.asarray(np.where(spread > 1e-9, spread, 1.0) * np.sqrt(features.shape[1]))


def _squares(rows: Floats, other: Floats, scale: Floats) -> Floats:
    """Return squared distances, [rows, other]."""
    return np.asarray((((rows[:, None, :] - other[None, :, :]) / scale) ** 2).sum(axis=2))
