"""Host time: a launch and a step, from steps that wait for the host."""

import random
from dataclasses import replace

import pytest

from models.gpu_step import host_time
from models.gpu_step.host_time import RELATIVE, HostTime, StepTiming, measured_hosts, processor_of
from models.gpu_step.operators import Work
from profilers.clusters.node_types import shipped_node_types
from tests.models.gpu_step.public import inventory_tables


def _step(issued: float, source: str = "", slowness: float = 1.0) -> StepTiming:
    step_us = slowness * (20_000 + 25 * issued)
    return StepTiming(issued, step_us, 0.2 * step_us, source)


def test_finds_what_made_the_steps() -> None:
    host = host_time.fit([_step(680), _step(1540), _step(5800)]).middle
    assert host.by_kind == pytest.approx({kind: 25 * times for kind, times in RELATIVE.items()})
    mm, view = Work("matmul", "mm", "float32", 0, 0), Work("none", "view", "float32", 0, 0)
    assert host.issue_us(mm) == pytest.approx(5 * host.issue_us(view))
    assert host.once_us(100, 25 * 680) == host.once_us(0, 1e6) == pytest.approx(20_000, rel=1e-3)


def test_a_step_of_fewer_operators_than_were_seen_costs_its_host_less() -> None:
    """680 operators take 37 ms in all; none would take 100/780 of that."""
    host = host_time.fit([_step(680), _step(1540), _step(5800)]).middle
    assert host.once_us(0, 0) == pytest.approx(37_000 * 100 / 780, rel=1e-3)
    assert 0 < host.once_us(0, 25 * 340) < host.once_us(0, 25 * 679) < 20_000


def test_sources_are_classes_of_hosts_and_the_middle_one_is_between() -> None:
    slow, fast = ([_step(n, str(s), s) for n in (500, 2000, 4000)] for s in (1.0, 0.5))
    known = host_time.fit([*slow, *fast])
    assert known.of("0.5").step_us == pytest.approx(10_000, rel=1e-2)
    assert known.middle.step_us == pytest.approx(20_000 / 2**0.5, rel=1e-2)
    assert known.of("another") == known.middle
    assert known.spread == pytest.approx((0.5**0.5, 2**0.5), rel=1e-2)
    # A third, between both, is the middle; one that never waits for its host says nothing.
    third = [_step(n, "0.8", 0.8) for n in (500, 2000, 4000)]
    busy = [StepTiming(n, 10e6, 9.9e6, "busy") for n in (500, 2000, 4000)]
    known = host_time.fit([*slow, *fast, *third, *busy])
    assert known.middle == known.of("0.8") and "busy" not in known.slowness


def test_a_step_that_the_gpu_binds_says_that_the_host_takes_no_longer() -> None:
    steps = [_step(680), _step(1540), _step(5800)]
    large, small = StepTiming(680, 10e6, 9.9e6), StepTiming(2000, 20_000, 19_000)
    assert host_time.fit([*steps, large]).times.by_kind["elementwise"] == pytest.approx(
        25, rel=1e-3
    )
    fitted = host_time.fit([*steps, large])
    assert host_time.fit([*steps, *[small] * 4]).times.step_us < fitted.times.step_us


def test_one_noisy_step_moves_little() -> None:
    steps = [_step(1.3 * launches) for launches in range(500, 4000, 250)]
    noisy = StepTiming(1300, 200_000, 1000)
    fitted = host_time.fit([*steps, noisy])
    assert fitted.times.by_kind["elementwise"] == pytest.approx(25, rel=0.05)


def test_a_search_that_stopped_too_early_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(51)
    steps = []
    for source, slowness in (("a", 1.0), ("b", 0.6), ("c", 0.7)) * 15:
        step = _step(draw.uniform(500, 5000), source, slowness * draw.lognormvariate(0, 0.15))
        steps.append(replace(step, gpu_us=step.step_us * draw.random()))
    fitted = host_time.fit(steps)
    monkeypatch.setattr("models.gpu_step.host_time._STARTS", 12)
    assert fitted.times.step_us == pytest.approx(host_time.fit(steps).times.step_us, rel=1e-3)


def test_a_measured_host_has_a_time_for_each_kind() -> None:
    tables = inventory_tables("gpu.l4", view=1e-6, product=9e-6, elementwise=5e-6)
    (host,) = measured_hosts(tables["run"], tables["sample"]).values()
    issued = {
        ("matmul", "mm"): 9,
        ("convolution_backward", "convolution_backward"): 9,
        ("normalization_backward", "layer_norm_backward"): 11,
        ("softmax", "softmax"): 5,
        ("optimizer", "_foreach_add_"): 5,
        ("none", "view"): 1,
        ("none", "t"): 0,
    }
    for (kind, name), us in issued.items():
        assert host.issue_us(Work(kind, name, "float32", 0, 0)) == pytest.approx(us)  # type: ignore[arg-type]
    assert host.once_us(10, 0) == pytest.approx(100 + 10 * 2)


def test_a_measured_host_stands_for_node_types_with_its_processor() -> None:
    own, middle = HostTime(RELATIVE, 5.0), host_time.fit([_step(500), _step(2000)])
    hosts = replace(middle, measured={"g6.2xlarge": own})
    rests_on = {name: hosts.of_node(name)[1] for name in ("g6.2xlarge", "p5.48xlarge", "g5.xlarge")}
    assert [*rests_on.values()] == ["measured", "processor", "public"]
    assert hosts.of_node("g6e.xlarge")[0] == own
    # Nobody tells the processor of a node type of one's own: two of these are not alike.
    unknown = replace(middle, measured={"gpu.l4": own})
    assert unknown.of_node("gpu.t4") == (middle.middle, "public")


def test_gpu_instances_of_ec2_have_their_processors() -> None:
    rented = [
        name for name, kind in shipped_node_types().items() if kind.vcpus is None and kind.gpu
    ]
    assert all((processor_of(name) is None) == name.startswith("gpu.") for name in rented)
    assert processor_of("g4dn.metal") == "Intel Xeon 8259CL"
    assert processor_of("p5e.48xlarge") == "AMD EPYC 7R13" != processor_of("p5en.48xlarge")
