"""Jobs of two types of workers, the slow one of which computes for 0.6 s where the other takes 0.3.

A step of the chain of `test_predictor` takes 0.78 s, or 1.08 s; 0.3 s of it are transfers on links
of 100 kB/s, which hardly take any time on links of 1 GB/s.
"""

from dataclasses import replace

import polars as pl
import pytest

from models.async_sgd.predictor import AsyncSGD, Settings, fit
from tests.models.async_sgd.frames import APPLY, CHAIN_STEP, COMPUTE, UPLOAD, Tables, chain, tables
from tests.models.async_sgd.test_predictor import QUICK, value, varied
from tests.models.mixed import both, both_samples, both_tables, mixed
from tests.models.runs import links, raw_tables
from warehouse.records import Scenario

FAST, SLOW, GAP = 0.78, 1.08, 0.08
UNLIMITED_BPS = 1e9
EQUAL = QUICK.model_copy(update={"newcomer_weight": 1.0})


def slow_chain(more_us: int = 300_000, steps: int = 3) -> Tables:
    """Return the chain with a computation that takes longer."""
    later = {UPLOAD: (560_000 + more_us, 130_000), APPLY: (690_000 + more_us, 10_000)}
    step = {**CHAIN_STEP, COMPUTE: (260_000, 300_000 + more_us), **later}
    made = chain(untraced_us=[1_000_000 + more_us])
    return replace(made, timings=tables([], [], [step] * steps).timings)


def fitted(
    made: Tables | None = None,
    settings: Settings = EQUAL,
    contention: pl.DataFrame | None = None,
    **changes: object,
) -> AsyncSGD:
    """Fit to a profile of each type, on links of 100 kB/s, with others of 1 GB/s known."""
    made = made or both(chain(), slow_chain())
    runs, scenarios = both_tables(**changes)
    fast_links = links([UNLIMITED_BPS], [UNLIMITED_BPS], run_id="links-2")
    tables = {
        **made.raw,
        "run": runs,
        "scenario": scenarios,
        "sample": both_samples("client_gap_s", GAP, GAP),
        "link": pl.concat([links([1e5], [1e5]), fast_links]),
    }
    return fit(tables if contention is None else {**tables, "contention": contention}, settings)


def on_fast_links(**counts: int) -> Scenario:
    names = {"fast": "emu.1c", "slow": "emu.slow"}
    return mixed({names[name]: count for name, count in counts.items()}, link_mbps=8.0)


def test_a_worker_alone_is_as_its_own_profile() -> None:
    model = fitted()
    for name, lasts_s in (("emu.1c", FAST), ("emu.slow", SLOW)):
        assert value(model, mixed({name: 1})) == pytest.approx(1 / lasts_s, rel=1e-3)


def test_like_workers_are_predicted_as_from_their_profile_alone() -> None:
    """To the last bit, whatever else the model has seen."""
    made = both(varied(), slow_chain())
    alone = fit(raw_tables(varied(), {"client_gap_s": [GAP]}), QUICK)
    cases = [mixed({"emu.1c": workers}) for workers in (1, 2, 3)]
    assert fitted(made, QUICK).predict(cases).equals(alone.predict(cases))


def test_types_of_very_unequal_speed() -> None:
    """A step of 20 s beside one of 0.48 s: the fast worker simulates many more steps."""
    model = fitted(both(chain(), slow_chain(20_000_000)))
    pair = on_fast_links(fast=1, slow=1)
    fast, slow = model.simulation(pair, 0)
    assert slow.options.steps == 10 + 20
    faster = (20.78 - 0.3) / (FAST - 0.3)
    assert fast.options.steps / slow.options.steps == pytest.approx(faster, rel=1e-2)
    expected = 1 / (FAST - 0.3) + 1 / (20.78 - 0.3)
    assert value(model, pair) == pytest.approx(expected, rel=1e-2)
