"""Study files: read as written, and every mistake told in one line."""

import json
from pathlib import Path

import pytest

from networks.gpu_steps import StepKey, gpu_steps
from networks.kept_graphs import keep_in
from networks.own_model import tracing
from pipelines.lineage import shown_files
from profilers.nodes.torch_network import TrainedNetwork
from studies.curve import gpu_precisions
from studies.study import read_study
from tests.synthetic import DDP as TORCH
from tests.synthetic import ONLY_PROFILES, STUDY, needs, write_study
from warehouse.records import BadInput


def told(folder: Path, text: str) -> str:
    """Return what is said about a study's text, after the name of its file."""
    path = write_study(folder, text)
    with pytest.raises(BadInput) as caught:
        read_study(path)
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith(f"{path}: ")
    return line.removeprefix(f"{path}: ")


def test_a_study_gives_scenarios(study_file: Path) -> None:
    study = read_study(study_file)
    small = study.curves[0]
    scenarios = small.scenarios("emulated")
    assert [scenario.strategy.workers for scenario in scenarios] == [1, 2]
    assert {scenario.link_mbps for scenario in scenarios} == {200}
    assert [group.node_type for group in scenarios[1].nodes] == ["emu.native.c25", "emu.server"]
    assert small.profiled("emulated") == scenarios[0]
    assert small.profiled("loopback").link_mbps is None


def test_cross_traffic_is_measured_and_not_profiled(tmp_path: Path) -> None:
    text = STUDY.replace("workers: [1, 2]", "cross_traffic: 0.3, workers: [1, 2]")
    curve = read_study(write_study(tmp_path, text)).curves[0]
    assert curve.scenario(2, "emulated").cross_traffic == 0.3
    assert curve.scenario(2, "loopback").cross_traffic is None
    assert curve.profiled("emulated").cross_traffic is None
    by_title = {need.title: need for need in needs(read_study(tmp_path / "paper.yaml"))}
    nodes = by_title["measure small_cnn 16px b4, 200 Mb/s, 30% cross traffic, W=2"].nodes
    roles = [(group.role, group.count) for group in nodes]
    assert roles == [("worker", 2), ("server", 1), ("neighbour", 1)]


MIX = "mix: 2 emu.sse41.s15@8 + 1 emu.avx512.s15@4 + 3 emu.avx2.s15@8"
DDP = "dnn: small_cnn, framework: pytorch, strategy: all_reduce, image_size: 16, link_mbps: 200"
MIXED = f"""
name: paper
systems: [srift]
probes:
  links: {{flows: [1, 2], seconds: 1, trials: 1}}
  allreduce: {{sizes_bytes: [4], world_sizes: [6], trials: 1}}
  torch_compute: {{batch_sizes: [4], trials: 2, watched_trials: 1}}
  torch_throughput: {{iterations: 20}}
test:
  - {{{DDP}, {MIX}}}
"""


def test_a_mix_has_nodes_and_batches_as_they_were_chosen(tmp_path: Path) -> None:
    study = read_study(write_study(tmp_path, MIXED))
    (curve,) = study.curves
    (scenario,) = curve.scenarios("emulated")
    assert (scenario.strategy.workers, scenario.workload.batch_size) == (6, 8)
    assert [(node.count, node.node_type, node.batch_size) for node in scenario.nodes] == [
        (3, "emu.avx2.s15", None),
        (1, "emu.avx512.s15", 4),
        (2, "emu.sse41.s15", None),
    ]
    by_probe = {need.probe: need for need in needs(study)}
    assert by_probe["torch_throughput"].nodes == scenario.nodes
    # All-reduces are probed with as many of each type as there can be.
    assert [node.count for node in by_probe["allreduce"].nodes] == [2, 2, 2]
    profiled = [need.nodes for need in needs(study) if need.probe == "torch_compute"]
    assert [(node.count, node.node_type, node.batch_size) for (node,) in profiled] == [
        (1, "emu.avx2.s15", None),
        (1, "emu.avx512.s15", None),
        (1, "emu.sse41.s15", None),
    ]
    assert [node.count for node in curve.profiled("emulated").nodes] == [1]
    assert study.curve_of(scenario, "emulated") == curve


@pytest.mark.parametrize(
    ("text", "right", "wrong", "expected"),
    [
        (MIXED, "mix: 2", "workers: [2], mix: 2", "test[0]: mix: it has workers already; leave"),
        (MIXED, "@4 + 3 emu.avx2.s15@8", "", "test[0]: mix: expected COUNT TYPE@BATCH + COUNT TY"),
        (MIXED, "avx2", "sse41", "test[0].worker: should name each node type once"),
        (MIXED, "framework: pytorch, ", "", "test[0]: mix: only framework pytorch, strategy all"),
        (STUDY, "probes:", "prober:", "prober: no such key; did you mean probes?"),
        (STUDY, "links:", "linsk:", "probes: no probe 'linsk'; did you mean links?"),
        (STUDY, "seconds: 1,", "seconds: 0.5,", "probes.links.seconds: should be whole, as iperf3"),
        (STUDY, "flows: [1, 2]", "flows: [2, 4]", "probes.links.flows: should be 1 or more each"),
        (STUDY, "window_s: 1}", "window_s: 1, interval: 0.02}", "probes.tf_throughput: interval "),
        # Amounts have an end, and are numbers; nothing is made of them before.
        (STUDY, "workers: [1, 2]", "workers: [1, 1000000000]", "test[0].workers[1]: "),
        (STUDY, "workers: [1, 2]", f"workers: {[1] * 1001}", "test[0].workers: "),
        (STUDY, "link_mbps: 200", "link_mbps: .inf", "test[0].link_mbps: "),
        (STUDY, "seconds: 1", "seconds: .nan", "probes.links.seconds: "),
        (TORCH, "bytes: [4,", "bytes: [100000000000000,", "probes.allreduce.sizes_bytes[0]: "),
        (ONLY_PROFILES, "backend: loopback", "systems: [linear]", "systems: nothing is forecast "),
        (STUDY, "dnn: alexnet", "dnn: []", "test[1]: dnn: expected a value or a list of some, fou"),
        (
            STUDY,
            "dnn: alexnet",
            "dnn: alexnet, is_judged: no",
            "test[1]: is_judged: not a field of",
        ),
        (STUDY, "dnn: alexnet", "dnn: [alexnet, alexnet]", "test[1] repeats alexnet 64px b4, 200 "),
    ],
)
def test_a_mistake_is_one_line(
    text: str, right: str, wrong: str, expected: str, tmp_path: Path
) -> None:
    assert right in text
    assert told(tmp_path, text.replace(right, wrong, 1)).startswith(expected)


def test_a_study_without_test_only_profiles(tmp_path: Path) -> None:
    study = read_study(write_study(tmp_path, ONLY_PROFILES))
    assert study.only_profiles
    assert not any(curve.is_judged for curve in study.curves)
    assert (study.metrics, study.carries_train) == (frozenset(), False)
    assert study.in_round(2) == study
    assert not read_study(write_study(tmp_path, STUDY)).only_profiles
    before, _, after = ONLY_PROFILES.partition("probes:")
    without_probes = f"{before}train:{after.partition('train:')[2]}"
    assert told(tmp_path, without_probes).startswith("test: missing; a study without it only profi")


TEXT = """
name: text
backend: loopback
systems: [gpu_step]
test:
  - {dnn: ["hf:tiny", "hf:tiny?checkpointed=1"], sequence_length: 7, batch_size: 2,
     precision: bfloat16, worker: gpu.h200}
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that has the config of a small model, beside what was traced of it."""
    folder = tmp_path_factory.mktemp("texts")
    config = {"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 8, "vocab_size": 50}
    (folder / "tiny").mkdir()
    (folder / "tiny" / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.usefixtures("quickly_traced")
def test_text_models_are_networks_by_the_names_of_their_steps(config: Path) -> None:
    keep_in(config / "graphs")
    study = read_study(write_study(config, TEXT))
    how = "hf:tiny?sequence_length=7", "hf:tiny?sequence_length=7?checkpointed=1"
    asked = [2], config, 60.0, gpu_precisions(study.curves)
    with tracing(how[0], *asked) as plain, tracing(how[1], *asked) as again:
        names = [plain().dnn, again().dnn]
    assert [curve.dnn for curve in study.curves] == names
    loads = [curve.scenario(1, "loopback").workload for curve in study.curves]
    assert {(load.image_size, load.sequence_length) for load in loads} == {(0, 7)}
    keys = [StepKey(load.dnn, load.batch_size, 0, load.precision) for load in loads]  # type: ignore[arg-type]
    assert len({step.activation_bytes for step in gpu_steps(keys).values()}) == len(keys)
    words, _ = TrainedNetwork.of(study.curves[0].scenario(1, "loopback")).draw(3)
    assert words.shape == (3, 7)


def test_a_name_alone_takes_no_trace(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("studies.study.tracing", None)
    path = write_study(config, TEXT)
    assert read_study(path, traces=False).name == "text"
    monkeypatch.setenv("STEPCAST_STUDIES", str(path))
    assert path in shown_files(config / "home")


@pytest.mark.usefixtures("quickly_traced")
@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        ("sequence_length", "image_size: 32, sequence_length", "test[0]: image_size: a model by"),
        ("hf:tiny", "hf:none.json", "test[0].dnn: hf:none.json: no such file in"),
        ("hf:tiny?checkpointed=1", "hf:./tiny", "test[0] repeats own-"),
        ("worker:", "memory_format: channels_last, worker:", "test[0].memory_format: hf:tiny sees"),
    ],
)
def test_text_models_that_cannot_be_are_told(
    right: str, wrong: str, expected: str, config: Path
) -> None:
    keep_in(config / "graphs")
    assert told(config, TEXT.replace(right, wrong)).startswith(expected)
