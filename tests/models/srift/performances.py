"""Made-up networks on made-up node types, small enough to try every configuration."""

from collections.abc import Iterator, Sequence
from itertools import combinations, product

from hypothesis import strategies as st

from models.choice.limits import Job
from models.choice.offers import Offer
from models.srift.allreduce_samples import AlphaBeta, Line
from models.srift.exchange import Buckets
from models.srift.iteration import (
    Configuration,
    ConfigurationGroup,
    NodeProfile,
    Performance,
    step_time_s,
)
from models.srift.latency import Latency, PiecewiseLinear
from models.srift.optimizer import ConfigurationForecast

NAMES = ("large", "medium", "small")


def line(slope_s: float, start_s: float = 0.0) -> PiecewiseLinear:
    """Return slope · batch + start."""
    return PiecewiseLinear(batch_sizes=(1, 2), seconds=(start_s + slope_s, start_s + 2 * slope_s))


def node(
    forward_s: float,
    backward_s: float,
    *,
    max_batch: int = 64,
    devices: int = 1,
    ready: tuple[float, ...] = (1.0,),
    link_Bps: float = 1e9,
    scale: float = 0.0,
    update_s: float = 0.0,
) -> NodeProfile:
    """Return a profile of which passes take so many seconds per sample."""
    latency = Latency(
        forward=line(forward_s), backward=line(backward_s), update_s=update_s, straggler_scale=scale
    )
    return NodeProfile(
        devices=devices, max_batch=max_batch, latency=latency, ready=ready, link_Bps=link_Bps
    )


@st.composite
def performances(draw: st.DrawFn, most_types: int = 3) -> Performance:
    """Draw profiles of one to three node types."""
    layers = draw(st.integers(1, 5))
    times = st.floats(0.01, 1.0)
    nodes = {
        name: NodeProfile(
            devices=draw(st.sampled_from([1, 1, 1, 2, 4])),
            max_batch=draw(st.sampled_from([4, 8, 9, 2, 1])),
            latency=Latency(
                forward=line(draw(times), draw(times)),
                backward=line(draw(times), draw(times)),
                update_s=draw(st.sampled_from([0.0, 0.1])),
                straggler_scale=draw(st.sampled_from([0.0, 0.03, 0.2])),
            ),
            ready=tuple(draw(st.lists(st.floats(0, 1), min_size=layers, max_size=layers))),
            link_Bps=draw(st.floats(5.0, 500.0)),
        )
        for name in NAMES[: draw(st.sampled_from([most_types, 2, 1]))]
    }
    lines = {
        name: Line(hop_s=draw(st.sampled_from([0.0, 0.02])), link_Bps=draw(st.floats(5.0, 500.0)))
        for name in nodes
    }
    sizes = draw(st.lists(st.integers(0, 200), min_size=layers, max_size=layers))
    return Performance(
        layer_bytes=tuple(sizes),
        nodes=nodes,
        bandwidth=AlphaBeta(lines=lines),
        buckets=draw(st.sampled_from([None, Buckets(first_bytes=50, bytes=150)])),
        probability=draw(st.sampled_from([None, (0.5,) * layers])),
        streams=draw(st.sampled_from([None, 1, 2])),
        slowdown=draw(st.sampled_from([0.0, 0.0, 0.5])),
        hindrance=draw(st.sampled_from([0.0, 0.0, 1.5])),
    )


@st.composite
def offers(draw: st.DrawFn, performance: Performance) -> list[Offer]:
    """Draw offers of every node type, of some in both markets."""
    prices = st.one_of(st.just(0.0), st.floats(0.1, 9.0))
    offered = []
    for name in performance.nodes:
        for market in draw(st.sampled_from([("on_demand",), ("spot",), ("on_demand", "spot")])):
            capacity = draw(st.sampled_from([3, 4, 2, 1, 0]))
            offered.append(
                Offer(node_type=name, market=market, usd_per_hour=draw(prices), capacity=capacity)
            )
    return offered


def every_configuration(
    performance: Performance, offered: Sequence[Offer], global_batch: int, max_types: int
) -> Iterator[Configuration]:
    """Yield all configurations, found by trying all counts and batches."""
    for types in range(1, max_types + 1):
        for chosen in combinations(offered, types):
            each = [list(_groups(performance, offer)) for offer in chosen]
            for groups in product(*each):
                if sum(group.count * group.batch_size for group in groups) == global_batch:
                    yield Configuration(groups=groups)


def _groups(performance: Performance, offer: Offer) -> Iterator[ConfigurationGroup]:
    profile = performance.nodes[offer.node_type]
    for count in range(1, offer.capacity + 1):
        per_device = 1
        while per_device <= profile.max_batch:
            yield ConfigurationGroup(
                node_type=offer.node_type,
                market=offer.market,
                count=count,
                batch_size=per_device * profile.devices,
            )
            per_device *= 2


def every_forecast(
    performance: Performance, offered: Sequence[Offer], job: Job, max_types: int
) -> list[ConfigurationForecast]:
    """Return forecasts of all configurations, each by the event simulator."""
    prices = {(offer.node_type, offer.market): offer.usd_per_hour for offer in offered}
    forecasts = []
    for configuration in every_configuration(performance, offered, job.global_batch, max_types):
        step_s = step_time_s(performance, configuration)
        time_s = step_s * job.iterations
        usd = sum(each.count * prices[each.node_type, each.market] for each in configuration.groups)
        forecasts.append(
            ConfigurationForecast(
                configuration=configuration,
                step_time_s=step_s,
                time_s=time_s,
                cost_usd=time_s * usd / 3600,
            )
        )
    return forecasts


def rated(**rated_Bps: float) -> AlphaBeta:
    """Return a model by which every all-reduce gets the speed of its slowest link at once."""
    return AlphaBeta(
        lines={name: Line(hop_s=0.0, link_Bps=speed) for name, speed in rated_Bps.items()}
    )
