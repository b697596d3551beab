"""Job files: what is wrong with one is said in one line."""

import json
import math
from datetime import UTC, datetime
from pathlib import Path

import pytest

from models.choice.offers import Offer
from models.srift.parameters import Settings
from models.srift.predictor import Srift, fit
from networks import UnknownNetwork
from pipelines.runtime.job_file import TrainingJob, read_job, read_performance
from pipelines.runtime.plan import Plan
from pipelines.runtime.state import LearnedDurations
from profilers.steady.host import host_id
from tests.models.srift import study
from tests.pipelines.runtime import jobs
from tests.pipelines.runtime.jobs import FAST, write_job
from warehouse.home import CHECKOUT
from warehouse.ledger import FitRecord
from warehouse.records import BadInput
from warehouse.warehouse import Warehouse

LOSS = {"node_type": jobs.FAST, "after_iterations": 1}


def test_a_job_is_read_with_its_profile(tmp_path: Path) -> None:
    job = read_job(write_job(tmp_path))
    assert job.profile == tmp_path / "profile.json"
    assert job.state().deadline_s == 3600
    assert job.controller(jobs.profile()).silence_s == 10


def test_the_job_of_the_page_begins_on_its_two_fast_nodes(tmp_path: Path) -> None:
    job = read_job(CHECKOUT / "studies/training/demo.yaml")
    plan = job.controller(read_performance(job, "emulated", tmp_path)).planner.plan(job.state())
    assert isinstance(plan, Plan)
    groups = plan.forecast.configuration.groups
    assert [(group.node_type, group.count, group.batch_size) for group in groups] == [(FAST, 2, 16)]


def test_times_are_the_papers_unless_given(tmp_path: Path) -> None:
    path = write_job(tmp_path)
    path.write_text(
        "\n".join(
            line
            for line in path.read_text().splitlines()
            if not line.startswith(("launch_s", "detach_s"))
        )
    )
    state = read_job(path).state()
    assert (state.launch, state.detach) == (
        LearnedDurations(assumed_s=150),
        LearnedDurations(assumed_s=5),
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": "red"}, "colour: no such key; the keys are name, dnn"),
        ({"offers": []}, "offers: tuple should have at least 1 item"),
        ({"budget_usd": -3}, "budget_usd: input should be greater than 0, found -3"),
        ({"name": "../small"}, "name: string should match pattern"),
        ({"deadline_s": math.nan}, "deadline_s: input should be a finite number"),
        ({"interruptions": [LOSS] * 1001}, "interruptions: tuple should have at most 1000 items"),
        ({"offers": [{"node_type": "emu.x", "usd_per_hour": 1, "capacity": 1}]}, "unknown node"),
    ],
)
def test_what_cannot_be_is_refused(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        read_job(write_job(tmp_path, **changes))


def test_a_job_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"none\.yaml does not exist"):
        read_job(tmp_path / "none.yaml")


def test_an_unknown_network_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnknownNetwork):
        read_job(write_job(tmp_path, dnn="small_cmm"))


@pytest.fixture(scope="module")
def fitted() -> Srift:
    """Return a fit of two networks on the node types fast and slow."""
    return fit(study.tables(), Settings(bandwidth="alpha_beta", model_error=0.0))


def record(home: Path, model: Srift, host: str) -> None:
    """Put a fit into the history."""
    fits = FitRecord(
        system="srift",
        model_version="1",
        parameters=json.loads(model.parameters_json()),
        run_ids=(),
        row_filter="all",
        row_count=1,
        data_hash="x",
        backend="emulated",
        host_id=host,
        code_version="1",
        created_at=datetime.now(UTC),
    )
    Warehouse(home).record(fits=[fits])
    Warehouse(home).load()


def job(*node_types: str, **changes: object) -> TrainingJob:
    """Return a job without a profile of its own."""
    offers = tuple(
        Offer(node_type=name, market="spot", usd_per_hour=1.0, capacity=2) for name in node_types
    )
    fields = {
        "name": "small", "dnn": "small_cnn", "image_size": 64, "samples": 20, "global_batch": 8,
        "iterations": 20, "minimize": "cost", "link_mbps": 200.0, "offers": offers,
    }  # fmt: skip
    return TrainingJob.model_validate(fields | changes)


def test_the_newest_fit_of_this_host_is_taken(home: Path, fitted: Srift) -> None:
    record(home, fitted, host_id())
    performance = read_performance(job("fast", "slow"), "emulated", home)
    assert set(performance.nodes) == {"fast", "slow"}
    assert performance.layer_bytes == study.LAYERS["small_cnn"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"image_size": 32}, "32"), ({"link_mbps": 100.0}, "links of 100 Mb/s were not probed")],
)
def test_what_was_not_probed_is_told(
    changes: dict[str, object], message: str, home: Path, fitted: Srift
) -> None:
    record(home, fitted, host_id())
    with pytest.raises(BadInput, match=message):
        read_performance(job("fast", **changes), "emulated", home)
    with pytest.raises(BadInput, match="'other' has no compute profile"):
        read_performance(job("fast", "other"), "emulated", home)


def test_fits_of_another_host_or_backend_do_not_count(home: Path, fitted: Srift) -> None:
    record(home, fitted, "another")
    with pytest.raises(BadInput, match="names no profile, and srift has not been fitted"):
        read_performance(job("fast"), "emulated", home)
    record(home, fitted, host_id())
    with pytest.raises(BadInput, match="on loopback nodes of this host yet"):
        read_performance(job("fast"), "loopback", home)


def test_a_profile_may_be_a_file(tmp_path: Path, home: Path) -> None:
    given = read_job(write_job(tmp_path))
    assert set(read_performance(given, "emulated", home).nodes) == set(jobs.PRICES)


def test_a_file_that_is_not_there_or_is_none_is_told(tmp_path: Path, home: Path) -> None:
    given = read_job(write_job(tmp_path, profile="nowhere.json"))
    with pytest.raises(BadInput, match=r"nowhere\.json does not exist"):
        read_performance(given, "emulated", home)
    (tmp_path / "nowhere.json").write_text("{}")
    with pytest.raises(BadInput, match="layer_bytes, nodes, bandwidth: missing"):
        read_performance(given, "emulated", home)


def test_a_file_without_a_node_type_on_offer_is_refused(tmp_path: Path, home: Path) -> None:
    given = read_job(write_job(tmp_path))
    fitted = jobs.profile()
    less = {name: node for name, node in fitted.nodes.items() if name != FAST}
    only = fitted.model_copy(update={"nodes": less})
    (tmp_path / "profile.json").write_text(only.model_dump_json())
    with pytest.raises(BadInput, match=FAST):
        read_performance(given, "emulated", home)
