"""What Dagster is given loads, and every asset says what it is."""

from pathlib import Path

import pytest
from dagster import AssetKey, Definitions, build_schedule_context, validate_run_config

from models.systems import SYSTEMS
from pipelines.definitions import defs
from pipelines.schedules import VARIANCE
from studies.study import read_study

MEASURING = {
    "cluster/links",
    "cluster/contention",
    "cluster/allreduce",
    "profiles/tf_trace",
    "profiles/torch_compute",
    "profiles/torch_memory",
    "profiles/slowdown",
    "profiles/tf_operations",
    "profiles/tf_sync",
    "profiles/torch_operations",
    "profiles/torch_throughput",
    "measured/throughput",
}
KEYS = {
    *MEASURING,
    "profiles/loaded",
    "profiles/http2",
    "profiles/end_times",
    "profiles/transfer_order",
    "fits/async_sgd_overhead",
    *(f"{group}/{system.name}" for group in ("fits", "predictions") for system in SYSTEMS),
    "measured/loaded",
    "accuracy/table",
    "accuracy/report",
}


def test_definitions_are_loadable() -> None:
    Definitions.validate_loadable(defs)


def test_every_asset_describes_itself() -> None:
    specs = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}
    assert set(specs) == KEYS
    for key, spec in specs.items():
        assert spec.group_name == key.partition("/")[0]
        assert spec.description
        assert spec.owners
        assert spec.kinds
        assert (spec.freshness_policy is not None) == (key in MEASURING)


@pytest.mark.parametrize("key", sorted(KEYS))
def test_what_measures_and_what_opens_the_database_is_in_a_pool(key: str) -> None:
    asset = defs.resolve_assets_def(AssetKey(key.split("/")))
    assert asset.op.pool == ("measuring_host" if key in MEASURING else "warehouse")


def test_nothing_is_measured_before_it_is_predicted() -> None:
    graph = defs.resolve_asset_graph()
    upstream = graph.get(AssetKey(["measured", "throughput"])).parent_keys
    assert upstream == {AssetKey(["predictions", system.name]) for system in SYSTEMS}


def test_the_job_runs_everything_in_one_process() -> None:
    job = defs.resolve_job_def("demo")
    assert {key.to_user_string() for key in job.asset_layer.executable_asset_keys} == KEYS
    assert job.executor_def.name == "in_process"
    names = {check.name for check in job.asset_layer.asset_graph.asset_check_keys}
    assert names == {
        "links_are_as_shaped",
        "traces_are_whole",
        "transfers_were_captured",
        "orders_are_kept",
        "links_can_carry_it",
        "not_above_linear",
        "host_was_not_busy",
        "everything_is_judged",
    }


@pytest.mark.parametrize("name", ["half_hourly_variance", "weekly_reprofiling"])
def test_schedules_are_off_until_somebody_wants_them(name: str) -> None:
    schedule = defs.resolve_schedule_def(name)
    assert schedule.default_status.value == "STOPPED"
    assert schedule.job_name == "demo"


def test_variance_is_measured_of_its_own_study() -> None:
    schedule = defs.resolve_schedule_def("half_hourly_variance")
    (request,) = schedule.evaluate_tick(build_schedule_context()).run_requests or ()
    assert validate_run_config(defs.resolve_job_def("demo"), request.run_config)
    assert Path(request.run_config["resources"]["study"]["config"]["path"]).name == "variance.yaml"
    assert read_study(VARIANCE).kind == "ddp"
