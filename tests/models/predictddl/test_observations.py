"""What node types can do: as measured, and where a metric is missing, from what is known."""

import polars as pl
import pytest

from models.predictddl.observations import capabilities, observed_steps
from tests.models.predictddl.study import raw_tables, scenario


def test_types_of_other_hosts_are_types_of_their_own() -> None:
    tables = raw_tables([scenario("ant", 2, 4)])
    other = pl.col("run_id") == "of-slow"
    cases = (other, {"fast", "slow@5e1f5e1f"}), (~other, {"fast@5e1f5e1f", "slow"})
    for elsewhere, names in cases:
        run = tables["run"].with_columns(host_id=pl.lit("5e1f5e1f99999999"), elsewhere=elsewhere)
        assert capabilities({**tables, "run": run}).keys() == names
        (step,) = observed_steps({**tables, "run": run})
        (node_group,) = step.scenario.worker_groups
        assert node_group.node_type in names
        assert node_group.node_type.startswith("fast")


def test_a_scenario_of_two_hosts_is_two() -> None:
    tables = raw_tables([scenario("ant", 2, 4)])
    step = tables["run"].filter(probe="torch_throughput")
    two_hosts = pl.concat([step.with_columns(elsewhere=pl.lit(value)) for value in (False, True)])
    run = two_hosts.with_columns(
        run_id=pl.when("elsewhere").then(pl.lit("there")).otherwise("run_id"),
        host_id=pl.lit("5e1f5e1f99999999"),
    )
    other_sample = (
        tables["sample"]
        .filter(run_id="step-0")
        .with_columns(run_id=pl.lit("there"), value=2 * pl.col("value"))
    )
    sample = pl.concat([tables["sample"], other_sample])
    here, far = observed_steps({**tables, "run": run, "sample": sample})
    assert far.step_s == pytest.approx(2 * here.step_s)
    assert far.scenario.worker_groups[0].node_type == "fast@5e1f5e1f"
