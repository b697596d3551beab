"""Small jobs with declared profiles, for real nodes and made-up ones."""

import json
from collections.abc import Mapping
from pathlib import Path

import yaml

from models.choice.limits import Minimize
from models.choice.offers import Offer
from models.srift.iteration import NodeProfile, Performance
from models.srift.latency import Latency, PiecewiseLinear
from pipelines.runtime.plan import Planner
from tests.models.srift.performances import rated

FAST, SLOW, SPARE = "emu.native.c25", "emu.native.c15", "emu.sse41.c25"
MAX_BATCH = {FAST: 4, SLOW: 2, SPARE: 2}
PRICES = {FAST: 0.06, SLOW: 0.04, SPARE: 0.05}
SAMPLES, GLOBAL_BATCH = 20, 8


def profile(devices: Mapping[str, int] | None = None) -> Performance:
    """Return what is declared of small_cnn: full nodes of each type take as long.

    A node has one device unless `devices` says more, of its type; they share what it holds.
    """
    several = devices or {}

    def latency(batch: int) -> Latency:
        line = PiecewiseLinear(batch_sizes=(1, 2 * batch), seconds=(0.1 / batch, 0.2))
        return Latency(forward=line, backward=line)

    nodes = {}
    for name, batch in MAX_BATCH.items():
        count = several.get(name, 1)
        nodes[name] = NodeProfile(
            devices=count,
            max_batch=batch // count,
            latency=latency(batch // count),
            ready=(0.5,),
            link_Bps=25e6,
        )
    bandwidth = rated(**dict.fromkeys(nodes, 25e6))
    return Performance(
        layer_bytes=(1_600_000,), probability=(1.0,), nodes=nodes, bandwidth=bandwidth
    )


def planner(capacity: int = 2, minimize: Minimize = "cost") -> Planner:
    """Return one with the three types, so many nodes of each."""
    offers = tuple(
        Offer(node_type=name, market="spot", usd_per_hour=usd, capacity=capacity)
        for name, usd in PRICES.items()
    )
    performance = profile()
    return Planner(performance, offers, GLOBAL_BATCH, minimize)


def write_job(folder: Path, **changes: object) -> Path:
    """Write a job that starts on two fast nodes, and its profile; return the job's file."""
    (folder / "profile.json").write_text(profile().model_dump_json())
    fields = {
        "name": "small",
        "dnn": "small_cnn",
        "image_size": 16,
        "samples": SAMPLES,
        "global_batch": GLOBAL_BATCH,
        "iterations": 20,
        "minimize": "cost",
        "deadline_s": 3600.0,
        "link_mbps": 1000,
        "profile": "profile.json",
        "offers": [
            {"node_type": node_type, "market": "spot", "usd_per_hour": usd, "capacity": 2}
            for node_type, usd in PRICES.items()
        ],
        "launch_s": 5.0,
        "restart_s": 5.0,
        "detach_s": 0.5,
        "beat_s": 0.1,
        "checkpoint_every": 5,
    }
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(json.loads(json.dumps({**fields, **changes}))))
    return path
