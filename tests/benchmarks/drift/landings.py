"""Folders of probes that somebody might have collected."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from benchmarks.drift.collecting import Planned
from benchmarks.traces import a_run
from profilers import watch
from warehouse.landing import land

USUAL: Mapping[str, float] = {
    watch.STEP_CPU: 0.02,
    watch.CPU_SHARE: 0.15,
    watch.MEMORY: 6e9,
    watch.HOST_MEMORY: 7e9,
    watch.TO_SERVER: 24e6,
    watch.FROM_SERVER: 24e6,
    watch.GAUGE_US: 90.0,
    watch.HOST_GFLOPS: 50.0,
}
SLOWER = {
    "links": (watch.TO_SERVER, watch.FROM_SERVER),
    "cpu_share": (watch.CPU_SHARE,),
    "memory": (watch.MEMORY,),
}
WINDOWS = 3


def collected(landing: Path, planned: Sequence[Planned], noise: float, seed: int = 0) -> Path:
    """Land probes in their order, whose windows scatter so much; return the folder."""
    chance = np.random.default_rng(seed)
    for place, one in enumerate(planned):
        speed = {
            name: value * np.exp(noise * chance.standard_normal(WINDOWS))
            for name, value in USUAL.items()
        }
        if one is not None:
            speed |= {name: speed[name] * (1 - one.by) for name in SLOWER[one.what]}
        speed[watch.STEP_TIME] = speed[watch.STEP_CPU] / speed[watch.CPU_SHARE]
        windows = [{name: float(of[at]) for name, of in speed.items()} for at in range(WINDOWS)]
        started_at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=place)
        fields = {"probe": "watch", "started_at": started_at, "host": {"boot_id": "a"}}
        run = a_run(f"probe-{place:03}").model_copy(
            update={**fields, "config": {"worker": "emu.avx2.s15"}}
        )
        if one is not None:
            run = one.label(run, 200.0)
            assert json.loads(str(run.config["injected"]))["what"] == one.what
        land(landing, run, None, {"sample": watch.samples(windows)})
    return landing
