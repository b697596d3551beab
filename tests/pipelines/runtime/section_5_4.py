"""The scenario of Srift's section 5.4, with declared profiles of ResNet-50 on its node types.

Prices, largest batches, limits and launch times are the paper's. Seconds are declared so that its
forecasts come out: 400 iterations in 152 s on two p3.8xlarge, 200 in 100 s on one of them with
eight g3.8xlarge.
"""

from models.choice.offers import Offer
from models.srift.allreduce_samples import RatedBandwidth
from models.srift.iteration import NodeProfile, Performance
from models.srift.latency import Latency, PiecewiseLinear
from pipelines.runtime.controller import Controller
from pipelines.runtime.plan import Planner, SearchSettings
from pipelines.runtime.state import JobState

GBPS = 1e9 / 8
SECONDS = {"p3.8xlarge": (512, 0.38), "g3.8xlarge": (64, 0.5), "g4dn.8xlarge": (64, 0.5)}
"""Largest batch of a node, and what an iteration of it takes."""
PRICES = {"p3.8xlarge": 3.68, "g3.8xlarge": 0.69, "g4dn.8xlarge": 0.72}
GLOBAL_BATCH = 1024


def performance() -> Performance:
    """Return profiles whose gradients are exchanged while they are computed."""
    nodes = {
        name: NodeProfile(
            max_batch=batch,
            latency=Latency(
                forward=_line(batch, seconds / 3), backward=_line(batch, seconds / 1.5)
            ),
            ready=(0.5,),
            link_Bps=10 * GBPS,
        )
        for name, (batch, seconds) in SECONDS.items()
    }
    return Performance(
        (100_000_000,), nodes, RatedBandwidth(rated_Bps=dict.fromkeys(SECONDS, 10 * GBPS))
    )


def controller() -> Controller:
    """Return one that prefers p3, g3, g4dn in this order, K = 8.

    It solves within the paper's second, but no test depends on that.
    """
    offers = tuple(
        Offer(node_type=name, market="spot", usd_per_hour=usd, capacity=64)
        for name, usd in PRICES.items()
    )
    search = SearchSettings(preference=tuple(SECONDS), solve_s=60.0)
    return Controller(Planner(performance(), offers, GLOBAL_BATCH, "cost", search))


def state(deadline_s: float = 500.0) -> JobState:
    """Return the job: 400 iterations, launches of 150 s and detaching of 5 s expected."""
    return JobState(iterations=400, deadline_s=deadline_s)


def _line(batch: int, seconds: float) -> PiecewiseLinear:
    """A tenth of it is for no sample at all."""
    first = seconds / 10 + 0.9 * seconds / batch
    return PiecewiseLinear(batch_sizes=(1, batch), seconds=(first, seconds))
