"""What is measured of a member: which training each of its probes needs."""

from typing import get_args

import pytest

from fleet.members import Every
from fleet.schedule import visits
from fleet.studies import profiling_study, watching_study
from profilers.probes import PROBES
from tests.fleet.made import NODE_TYPE, member
from warehouse.records import BadInput

PROFILED = [name for name in PROBES if name != "watch"]
PYTORCH = ("pytorch", "all_reduce")
REDUCED = ("tensorflow", "all_reduce")
SERVED = ("tensorflow", "async_parameter_server")
TRAININGS = {
    "inventory": {PYTORCH},
    "links": {PYTORCH},
    "contention": {SERVED},
    "allreduce": {PYTORCH},
    "tf_trace": {SERVED},
    "tf_operations": {REDUCED},
    "torch_operations": {PYTORCH},
    "torch_memory": {PYTORCH},
    "torch_compute": {PYTORCH},
    "slowdown": {PYTORCH},
    "tf_throughput": {SERVED},
    "torch_throughput": {PYTORCH},
    "tf_sync": {REDUCED},
}


def trained(*probes: str) -> list[tuple[str, str]]:
    """Return the framework and strategy of each curve that a visit of these probes trains."""
    study = profiling_study(member(probes=probes))
    assert not any(curve.is_judged for curve in study.curves)
    return [(curve.framework, curve.strategy) for curve in study.curves]


@pytest.mark.parametrize("probe", PROFILED)
def test_each_probe_has_the_training_that_it_needs_and_no_other(probe: str) -> None:
    assert set(trained(probe)) == TRAININGS[probe]
    needs = visits(member(probes=(probe,)), []).round_.needs
    assert {need.probe for need in needs} == {probe}
    assert all(need.profiles for need in needs)


def test_links_need_no_training_of_their_own_beside_others() -> None:
    assert trained("links", "tf_trace") == [SERVED]
    assert trained("links", "torch_compute") == [PYTORCH]
    assert trained("torch_compute", "tf_operations") == [PYTORCH, REDUCED]


def test_studies_are_named_after_what_they_do_and_the_type() -> None:
    study = profiling_study(member())
    assert (study.name, study.backend, study.only_profiles) == (
        f"fleet.{NODE_TYPE}",
        "loopback",
        True,
    )
    assert list(study.probes) == ["links", "contention", "tf_trace"]
    other = watching_study(member())
    assert (other.name, list(other.probes)) == (f"watch.{NODE_TYPE}", ["watch"])


def test_what_a_member_says_is_trained() -> None:
    of = member(
        probes=("tf_trace",),
        networks=("alexnet", "small_cnn"),
        image_size=96,
        batch_size=3,
        workers=3,
        link_mbps=50,
    )
    curves = profiling_study(of).curves
    assert [curve.dnn for curve in curves] == ["alexnet", "small_cnn"]
    for curve in curves:
        assert (curve.image_size, curve.batch_size, curve.link_mbps) == (96, 3, 50)
        assert (curve.worker, curve.workers, curve.server) == ((NODE_TYPE,), (1, 3), "emu.server")


def test_images_are_as_small_as_networks_take_them_and_links_as_the_type_has_them() -> None:
    of = member(networks=("alexnet", "small_cnn"))
    assert [curve.image_size for curve in profiling_study(of).curves] == [64, 32]
    assert {curve.link_mbps for curve in profiling_study(of).curves} == {200}


def test_a_single_worker_is_no_curve_of_two() -> None:
    assert profiling_study(member(probes=("torch_throughput",), workers=1)).curves[0].workers == (
        1,
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"networks": ("resnet18",), "probes": ("tf_trace",)},
            f"tf_trace has nothing to measure of resnet18 on {NODE_TYPE}; name a network of its",
        ),
        (
            {"networks": ("small_cm",)},
            f"{NODE_TYPE}: networks: unknown DNN 'small_cm': the closest",
        ),
    ],
)
def test_what_cannot_be_measured_is_one_line(changes: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        profiling_study(member(**changes))  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_probe_is_in_the_table() -> None:
    assert TRAININGS.keys() == set(PROFILED)
    assert get_args(Every) == ("hour", "night", "week", "month")
