"""What every probe keeps to, whatever it measures."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest

from forecasting.inputs import inputs_of_study
from profilers.clusters import open_cluster
from profilers.clusters.node_types import declared_usd_per_hour
from profilers.probe import (
    Measured,
    PlannedRun,
    Probe,
    RequestedScenarios,
    Session,
    measure_planned_runs,
)
from profilers.probes import PROBES, measuring_probe
from studies.planned_runs import requested_scenarios, required_runs
from studies.run_settings import differences, with_settings
from studies.study import Study, read_study
from tests.reference import REFERENCE
from tests.synthetic import landed
from warehouse.home import CHECKOUT
from warehouse.records import BadInput, ProbeFailed, Scenario
from warehouse.seal import FOLDER
from warehouse.tables import SCHEMAS

COMMITTED = sorted((CHECKOUT / "studies").glob("*.yaml"))
SERVERS = """
name: servers
probes: {contention: }
test:
  - {dnn: [small_cnn, alexnet], image_size: 64, batch_size: 4,
     worker: [emu.native.c25, emu.native.s25 + emu.native.s15], server: emu.server,
     link_mbps: [100, 200], workers: [1, 2, 3]}
"""
REDUCING = """
name: reducing
probes:
  slowdown: {networks: [resnet18, alexnet]}
  torch_memory: {most: 64}
  torch_compute: {held_out: [3, 5]}
  torch_operations: {test: true}
train:
  - {dnn: vgg11, framework: pytorch, strategy: all_reduce, image_size: 64, batch_size: 4,
     worker: [emu.avx2.s15, emu.avx512.s15], link_mbps: 500, workers: [1, 2]}
test:
  - {dnn: [resnet18, alexnet], framework: pytorch, strategy: all_reduce, image_size: 64,
     batch_size: [4, 8], worker: [emu.avx2.s15, emu.avx512.s15 + emu.avx2.s15], link_mbps: 500,
     workers: [2, 4]}
  - {dnn: resnet18, framework: pytorch, strategy: all_reduce, image_size: 64, link_mbps: 500,
     mix: 2 emu.avx512.s15@16 + 1 emu.avx2.s15@8}
"""
SYNCHRONOUS = """
name: synchronous
probes: {tf_operations: {test: true}}
train:
  - {dnn: alexnet, strategy: all_reduce, image_size: 64, batch_size: 4,
     worker: [emu.avx2.s40, emu.avx512.s40], link_mbps: 800, workers: [1, 2]}
test:
  - {dnn: small_cnn, strategy: all_reduce, image_size: 24, batch_size: 4,
     worker: [emu.avx2.s40, emu.avx512.s40], link_mbps: 800, workers: [1, 2]}
"""
every_probe = pytest.mark.parametrize("probe", PROBES.values(), ids=PROBES)


def study(text: str) -> Study:
    """Return the study of a file with this text."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "study.yaml"
        path.write_text(text)
        return read_study(path)


@cache
def asked() -> dict[str, tuple[RequestedScenarios, object]]:
    """Return what studies of each kind ask of each probe, and its settings there.

    Of a probe that no system asks for, the nodes and links of one of them are asked.
    """
    requested: dict[str, tuple[RequestedScenarios, object]] = {}
    for example in map(study, (SERVERS, REDUCING, SYNCHRONOUS)):
        for name, of in requested_scenarios(example, "emulated", inputs_of_study(example)).items():
            requested.setdefault(name, (of, example.settings_of(name)))
    unasked = RequestedScenarios(cluster=requested["slowdown"][0].cluster)
    return {name: (unasked, probe.settings()) for name, probe in PROBES.items()} | requested


def needs_of(probe: Probe) -> list[PlannedRun]:
    """Return what these studies need of a probe."""
    return list(probe.needs(*asked()[probe.name]))


def scenarios(of: RequestedScenarios) -> set[Scenario]:
    """Return all that a probe is asked about."""
    return {*of.own, *of.cluster, *of.train, *of.test}


@every_probe
def test_a_probe_says_what_it_is(probe: Probe) -> None:
    assert PROBES[probe.name] is probe
    assert re.fullmatch(r"[a-z_]+", probe.name)
    assert probe.what.endswith(".")
    assert probe.kind
    assert probe.tables
    assert len(set(probe.tables)) == len(probe.tables)
    assert set(probe.tables) <= SCHEMAS.keys() - {"run", "scenario"}
    assert probe.essential <= probe.settings.model_fields.keys()
    assert {need.probe for need in needs_of(probe)} == {probe.name}
    folder = CHECKOUT / "profilers" / probe.name
    assert {path.name for path in folder.glob("*.py")} <= {"__init__.py", "probe.py", "program.py"}
    assert (folder / "__init__.py").read_text() == ""


def test_all_that_has_landed_is_of_a_probe_and_in_its_tables() -> None:
    landed: dict[str, set[str]] = {}
    for file in REFERENCE.glob("*/*.parquet"):
        if file.stem not in ("run", "scenario") and file.parent.name != FOLDER:
            for run_id in pl.read_parquet(file, columns=["run_id"])["run_id"].unique():
                landed.setdefault(run_id.split("-")[1], set()).add(file.stem)
    assert landed.keys() <= PROBES.keys()
    for name, tables in landed.items():
        assert tables <= set(PROBES[name].tables), name


@every_probe
def test_settings_have_defaults_and_land_as_they_were_given(probe: Probe) -> None:
    assert probe.settings() == probe.settings.model_validate({})
    for need in needs_of(probe):
        assert need.settings.keys() <= probe.settings.model_fields.keys()
        assert json.loads(json.dumps(dict(need.settings))).keys() == need.settings.keys()
        ran = with_settings(landed(need), need.settings)
        assert differences(ran, need.settings) == {}


@every_probe
def test_what_is_asked_alike_is_needed_alike_and_once(probe: Probe) -> None:
    of, settings = asked()[probe.name]
    first, again = (list(probe.needs(of, settings)) for _ in range(2))
    twice = RequestedScenarios(of.own * 2, of.cluster * 2, of.train * 2, of.test * 2)
    assert first
    assert [vars(need) for need in first] == [vars(need) for need in again]
    assert [vars(need) for need in first] == [vars(need) for need in probe.needs(twice, settings)]
    assert len({(need.subject, need.purpose) for need in first}) == len(first)


@every_probe
def test_only_what_is_asked_about_is_needed(probe: Probe) -> None:
    of, _ = asked()[probe.name]
    assert all(map(probe.concerns, scenarios(of)))
    trained = {(scenario.workload.dnn, scenario.workload.image_size) for scenario in scenarios(of)}
    types = {group.node_type for scenario in scenarios(of) for group in scenario.nodes}
    speeds = {scenario.link_mbps for scenario in scenarios(of)}
    for need in needs_of(probe):
        assert need.subject.link_mbps in {*speeds, None}
        assert {group.node_type for group in need.nodes} <= types
        assert need.subject.worker_types <= types
        if need.subject.scenario is not None:
            load = need.scenario.workload
            assert (load.dnn, load.image_size) in trained
            assert probe.concerns(need.scenario)


@every_probe
def test_what_predictors_see_and_what_judges_them_are_apart(probe: Probe) -> None:
    of, _ = asked()[probe.name]
    for need in needs_of(probe):
        if need.of_train:
            assert need.profiles
        if probe.metric is not None:
            assert need.scenario in (of.train if need.profiles else of.test)
    if probe.metric is not None:
        judged = {need.scenario for need in needs_of(probe) if not need.profiles}
        assert judged == set(of.test)


@pytest.mark.parametrize(
    "one",
    [*map(read_study, COMMITTED), *map(study, (SERVERS, REDUCING, SYNCHRONOUS))],
    ids=lambda study: study.name,
)
def test_titles_and_subjects_are_unique_within_a_study(one: Study) -> None:
    runs = required_runs(one, "emulated", inputs_of_study(one))
    assert len({need.title for need in runs}) == len(runs)
    assert len({(need.subject, need.purpose) for need in runs}) == len(runs)
    about = [need for need in runs if need.subject.scenario is not None]
    assert all(PROBES[need.probe].concerns(need.scenario) for need in about)


def test_what_no_probe_measures_is_told() -> None:
    scenario = next(iter(asked()["tf_throughput"][0].test))
    load = scenario.workload.model_copy(update={"framework": "pytorch"})
    with pytest.raises(BadInput, match="no probe measures async_parameter_server of pytorch"):
        measuring_probe(scenario.model_copy(update={"workload": load}))


@every_probe
@pytest.mark.parametrize("measured", [0, 1])
def test_a_failure_is_a_failed_run_of_each_need_that_was_not_measured(
    probe: Probe, measured: int, tmp_path: Path
) -> None:
    needs = needs_of(probe)[: measured + 2]

    def run(session: Session, some: Sequence[PlannedRun]) -> Iterator[Measured]:
        for _ in some[:measured]:
            yield Measured({})
        raise ProbeFailed("worker0 ended early", "no paper left")

    with open_cluster("loopback", (), 100) as cluster:
        session = Session(cluster, tmp_path, lambda _: None, "test", 3)
        pairs = list(measure_planned_runs(replace(probe, run=run), session, needs))
    assert [need for need, _ in pairs] == needs
    assert all(result.scenario == need.subject.scenario for need, result in pairs)
    assert [result.run.status for _, result in pairs[:measured]] == ["ok"] * measured
    for need, result in pairs:
        scenario = need.subject.scenario
        declared = declared_usd_per_hour(scenario.nodes if scenario else ())
        assert result.run.config["usd_per_hour"] == declared
    failed = pairs[measured:]
    assert len(failed) == len(needs) - measured > 0
    for need, result in failed:
        run_ = result.run
        assert (run_.status, run_.error) == ("failed", "worker0 ended early")
        assert (run_.probe, run_.purpose, run_.repeat) == (probe.name, need.purpose, 3)
        scenario = need.subject.scenario
        assert run_.scenario_id == (scenario.scenario_id if scenario else None)
        assert not need.is_done_by(run_)
        assert dict(result.tables) == {}
        assert result.artefacts["stderr.txt"].read_text() == "no paper left"
    assert len({result.run.run_id for _, result in pairs}) == len(pairs)
    assert len({result.artefacts["stderr.txt"] for _, result in failed}) == len(failed)


def test_what_is_no_failure_of_measuring_is_raised(tmp_path: Path) -> None:
    probe = PROBES["links"]

    def run(*_: object) -> Iterator[Measured]:
        raise BadInput("four flows need four workers")
        yield

    asked_again = replace(probe, run=run)
    with open_cluster("loopback", (), None) as cluster, pytest.raises(BadInput, match="four flows"):
        session = Session(cluster, tmp_path, lambda _: None, "test", 1)
        list(measure_planned_runs(asked_again, session, needs_of(probe)))
