"""Models of bandwidth as the simulator asks them: on links of one speed, or faster, or slower."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.srift.performance import BusBandwidth
from models.srift.probed import Speed, place


@dataclass(frozen=True)
class AtSpeed:
    """A model that knows node types by their place, asked for them on links of one speed."""

    model: BusBandwidth
    link_mbps: Speed

    def table(
        self,
        node_types: tuple[str, ...],
        world_sizes: NDArray[np.int64],
        size_bytes: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Return bus bandwidth in bytes/s, [world sizes, sizes]."""
        places = tuple(sorted(place(one, self.link_mbps) for one in node_types))
        return self.model.table(places, world_sizes, size_bytes)


@dataclass(frozen=True)
class Scaled:
    """A model, and by which factor its bandwidth is multiplied."""

    model: BusBandwidth
    factor: float

    def table(
        self,
        node_types: tuple[str, ...],
        world_sizes: NDArray[np.int64],
        size_bytes: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Return bus bandwidth in bytes/s, [world sizes, sizes]."""
        return self.factor * self.model.table(node_types, world_sizes, size_bytes)
