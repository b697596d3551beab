"""Ernest's terms of a step: fixed, of the data that each machine has, of trees and of all machines.

Source: Venkataraman et al., NSDI 2016, section 3.2: θ0 + θ1 (scale / machines) + θ2 log(machines)
+ θ3 machines, coefficients of 0 or more.
"""

from collections.abc import Sequence

import numpy as np
import scipy
from numpy.typing import NDArray

from models.predictddl.observed import images_per_step
from warehouse.records import Scenario

Floats = NDArray[np.float64]


def features(scenario: Scenario) -> Floats:
    """Return the four terms of a scenario, whose scale is the images of a step."""
    machines = scenario.strategy.workers
    return terms(machines, images_per_step(scenario) / machines)


def terms(machines: float, each: float) -> Floats:
    """Return the four terms of so many machines, each of which has so many images."""
    return np.array([1.0, each, np.log(machines), float(machines)])


def fit(rows: Sequence[Floats], seconds: Sequence[float]) -> Floats:
    """Return coefficients of 0 or more, by least squares of seconds."""
    found, _ = scipy.optimize.nnls(np.array(rows), np.array(seconds))
    return np.asarray(found)
