"""Cynthia (Zheng et al., ICPP 2019) as ICPE 2020 prints it, and its variant: docs/baselines.md."""

from dataclasses import replace
from functools import partial

from pydantic import Field

from models.async_sgd.profiles import tracer_excess_s
from models.inputs import STEPS, inputs_of_like_workers
from models.phases import compute_busy_s, transfer_s
from models.profiled_run import (
    PointForecaster,
    metric_mean,
    profiled_scenario,
)
from models.system import System, Tables
from warehouse.records import Scenario

LEAST_COMPUTING = 0.5
"""Of the traced computation, however much tracing seems to cost; as async_sgd/profiles.py."""


class Cynthia(PointForecaster):
    """T_p, T_C and U_1 in the terms of section 1 of ICPE 2020, of a profiled run."""

    run_id: str
    scenario: Scenario
    compute_s: float = Field(ge=0)
    transfer_s: float = Field(gt=0)
    utilisation: float = Field(gt=0, le=1)

    def value(self, scenario: Scenario) -> float:
        """W / (T_p max(1, W U_1) + 2 T_C): ICPE 2020, section 1, in steps and not in examples."""
        workers = scenario.strategy.workers
        computing_s = self.compute_s * max(1.0, workers * self.utilisation)
        return workers / (computing_s + 2 * self.transfer_s)


def fit(tables: Tables, *, halved: bool = False) -> Cynthia:
    """Fit to one profile of 1 worker and 1 server.

    T_p is the time of a step in which the worker computes, less what tracing adds to a step; T_C
    the mean of both directions' bytes at the link's speed; U_1 the part of an untraced step that
    2 T_C makes up, at most 1.

    Args:
        tables: `STEPS` of the profile and of its link.
        halved: whether T_C is halved (ICPE 2020, section 4.4).

    Raises:
        BadInput: tables that are incomplete or contradict each other.
    """
    run_id = tables["operation"]["run_id"][0]
    both_ways_s = sum(transfer_s(tables).values()) * (0.5 if halved else 1.0)
    traced_s = compute_busy_s(tables)
    untraced_s = traced_s - tracer_excess_s(tables["timing"], tables["step"])
    return Cynthia(
        run_id=run_id,
        scenario=profiled_scenario(tables, run_id),
        compute_s=max(untraced_s, LEAST_COMPUTING * traced_s),
        transfer_s=both_ways_s / 2,
        utilisation=min(both_ways_s / metric_mean(tables, run_id, "step_time_s"), 1.0),
    )


CYNTHIA = System(
    name="cynthia",
    version="1",
    what="Baseline: a closed form of computation, communication and utilisation (ICPP 2019).",
    source="Zheng, Xu, Chen, Zhou, Liu, ICPP 2019, as compared in ICPE 2020, section 4.4",
    tables=STEPS,
    inputs=inputs_of_like_workers,
    fit=fit,
    load=lambda text, _: Cynthia.model_validate_json(text),
)
CYNTHIA_HALF = replace(
    CYNTHIA,
    name="cynthia_half",
    what="Baseline: Cynthia with communication times halved (ICPE 2020, section 4.4).",
    source="ICPE 2020, section 4.4",
    fit=partial(fit, halved=True),
)
