"""The page about models of one's own: its steps are followed, its mistakes are made."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from forecasting.forecast import ForecastAnswer
from forecasting.history_scope import HostSelection
from forecasting.inputs import MissingRuns
from forecasting.scope import ForecastRefusal
from models.async_sgd.systems import ASYNC_SGD
from networks.own_model import OwnModel, tracing
from networks.primitives import Primitive, PrimitiveGraph
from pipelines.cli import own_workload, profile
from pipelines.cli.own_workload import OwnWorkload, profile_commands
from pipelines.cli.templates import curves_of
from tests import my_history
from tests.my_history import WORKER, possible
from tests.pipelines.ran import stepcast
from warehouse.home import CHECKOUT
from warehouse.records import BadInput

PAGE = possible((CHECKOUT / "docs" / "my-model.md").read_text())
TARGET = "my_package.my_module:build_model"
KERAS = "my_package.my_keras:build_keras"
CURVE = {
    "dnn": "own-1234abcd",
    "image_size": 24,
    "batch_size": 4,
    "worker": "emu.avx512.s40",
    "workers": 1,
    "link_mbps": 500,
}
ASKED = f"--batch-size 8 --workers 2 --worker {WORKER} --link-mbps 500".split()


@cache
def _own_model(
    target: str, batch_sizes: tuple[int, ...], folder: Path, gpu_precisions: tuple[str, ...]
) -> OwnModel:
    with tracing(target, batch_sizes, folder, gpu_precisions=gpu_precisions) as model:
        return model()


@contextmanager
def traced_once(
    target: str, batch_sizes: Sequence[int], folder: Path, *, gpu_precisions: Sequence[str]
) -> Iterator[Callable[[], OwnModel]]:
    """Stand in for `tracing`: a model that several commands ask about is traced once."""
    yield lambda: _own_model(target, tuple(batch_sizes), folder, tuple(gpu_precisions))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the package that the page writes, and a home with a history."""
    place = tmp_path_factory.mktemp("mine")
    codes = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (place / "my_package").mkdir()
    for name, code in zip(("my_module", "my_keras"), codes, strict=True):
        (place / "my_package" / f"{name}.py").write_text(code)
    my_history.build(place / "home")
    return place


@pytest.fixture
def there(folder: Path, quickly_traced: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in that folder, where each model is traced once."""
    monkeypatch.setattr(own_workload, "tracing", traced_once)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("STEPCAST_HOME", str(folder / "home"))
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")
    return folder


def test_nodes_for_a_model_of_ones_own(there: Path) -> None:
    job = ["--samples", "100000", "--capacity", f"{WORKER}=2", "--systems", "log_linear"]
    asked = ["recommend", "--dnn", TARGET, *job]
    content = stepcast(*asked, "--batch-size", "8", "--json").content
    assert content["model"]["target"] == TARGET
    assert content["question"]["dnn"] == content["model"]["dnn"]
    assert [candidate["workers"] for candidate in content["candidates"]] == [1, 2]
    words = stepcast(*asked, "--global-batch", "8")
    assert words.printed.splitlines()[0].startswith(f"{TARGET} is own-")


def test_a_keras_model_is_profiled_with_servers_alone() -> None:
    model = OwnModel("own-1234abcd", "tensorflow", 24, 100, None, {})
    alone = OwnWorkload(KERAS, model, curves_of([{**CURVE, "strategy": "all_reduce"}], None))
    with pytest.raises(BadInput, match="give --server and --link-mbps"):
        profile.probes_of(alone, 500)
    served = OwnWorkload(KERAS, model, curves_of([{**CURVE, "server": "emu.server"}], None))
    assert profile.probes_of(served, 500).keys() == {"links", "tf_trace"}
    with pytest.raises(BadInput, match="give --server and --link-mbps"):
        profile.probes_of(served, None)
    assert "100 parameters, a model of Keras, images of 24 px" in served.in_words


def test_what_makes_forecasts_of_a_model_unsure_is_said() -> None:
    graph = PrimitiveGraph("own-1234abcd", 1, (Primitive("input"),), (), 0)
    plain = OwnModel("own-1234abcd", "pytorch", 1, 100, graph, {}, (100, 1, 1))
    model = replace(plain, unknown_work={"aten::topk": 0.0123})
    assert OwnWorkload(TARGET, model).in_words.splitlines() == [
        f"{TARGET} is own-1234abcd: 100 parameters, 1 primitive operation, no images (samples of "
        "100 × 1 × 1).",
        "aten::topk: of unknown work, at most 1.2 % of all.",
    ]
    recurrent = replace(plain, unmeasured=("aten::lstm", "aten::_fft_r2c"))
    _, doubt = OwnWorkload(TARGET, recurrent).in_words.splitlines()
    assert doubt == (
        "aten::lstm; aten::_fft_r2c: counted by the products that they consist of. Forecasts "
        "have not been judged on such operators: past errors are of other networks."
    )
    adapted = replace(plain, frozen_count=1_900)
    in_words = OwnWorkload(TARGET, adapted).in_words
    assert " is own-1234abcd: trains 100 of 2,000 parameters, 1" in in_words
    content = OwnWorkload(TARGET, replace(model, unmeasured=("aten::lstm",))).as_json()
    assert content["unknown_work"] == {"aten::topk": 0.0123}
    assert content["unmeasured_operators"] == ["aten::lstm"]


def test_what_to_measure_is_a_command_with_all_that_was_given() -> None:
    served = curves_of([{**CURVE, "server": "emu.server", "servers": 2}], None)
    model = OwnModel("own-1234abcd", "tensorflow", 24, 100, None, {})
    assert hint(OwnWorkload(KERAS, model, served), "tf_trace") == (
        f"stepcast profile {KERAS} --worker emu.avx512.s40 --batch-size 4 --link-mbps 500 "
        "--server emu.server=2"
    )
    ring = {**CURVE, "framework": "pytorch", "strategy": "all_reduce", "workers": [1, 2]}
    of_config = OwnModel("own-1234abcd", "pytorch", 0, 100, None, {})
    workload = OwnWorkload("hf:bert?head=none", of_config, curves_of([ring], None), 64)
    assert hint(workload, "torch_compute") == (
        "stepcast profile hf:bert --head none --worker emu.avx512.s40 --batch-size 4 --workers 1,2 "
        "--sequence-length 64"
    )
    assert hint(workload, "allreduce") == (
        "stepcast profile hf:bert --head none --worker emu.avx512.s40 --batch-size 4 --workers 1,2 "
        "--link-mbps 500 --sequence-length 64"
    )


def test_what_another_host_has_is_measured_here_too() -> None:
    ring = {**CURVE, "framework": "pytorch", "strategy": "all_reduce"}
    of_torch = OwnModel("own-1234abcd", "pytorch", 24, 100, None, {})
    several = OwnWorkload(TARGET, of_torch, curves_of([{**ring, "workers": [1, 2]}], None))
    alone = OwnWorkload(TARGET, of_torch, curves_of([ring], None))
    passes = f"stepcast profile {TARGET} --worker emu.avx512.s40 --batch-size 4 --workers 1"
    exchange = ",2 --link-mbps 500"
    assert hint(several, "torch_compute", is_here=False) == passes + exchange
    assert hint(several, "torch_compute") == f"{passes},2"
    assert hint(alone, "torch_compute", is_here=False) == passes


def test_one_device_alone_is_profiled_as_it_is_asked_about() -> None:
    of_torch = OwnModel("own-1234abcd", "pytorch", 24, 100, None, {})
    recipe = {"framework": "pytorch", "precision": "bf16", "optimizer": "adamw", "accumulate": 2}
    about = {name: CURVE[name] for name in ("dnn", "image_size", "batch_size", "worker")}
    curves = curves_of([{**about, **recipe}], None)
    assert curves[0].strategy == "single"
    assert hint(OwnWorkload(TARGET, of_torch, curves), "torch_compute") == (
        f"stepcast profile {TARGET} --worker emu.avx512.s40 --batch-size 4 --precision bfloat16 "
        "--optimizer adamw --accumulate 2"
    )


def hint(workload: OwnWorkload, probe: str, *, is_here: bool = True) -> str:
    """Return the command that is said where runs of a probe lack."""
    (scenario, *_) = workload.curves[0].scenarios("loopback")
    refused = ForecastRefusal(scenario, ASYNC_SGD, "", lacking=(MissingRuns(probe, "it", None),))
    answer = ForecastAnswer(HostSelection("loopback", "here", is_here), (), (refused,), 0)
    (line,) = profile_commands(answer, workload)
    return line.removeprefix("To measure that on this machine, `").removesuffix("`.")


def mistakes() -> Iterator[tuple[list[str], str]]:
    """Yield commands of a new user, and what the page says of them."""
    yield ["my_package/my_module.py", *ASKED], f"such as {TARGET}"
    yield ["my_package.my_module.build_model", *ASKED], f"such as {TARGET}"
    yield [TARGET, *ASKED[2:]], "--batch-size: missing, and it has no default"
    yield [TARGET, *ASKED, "--image-size", "64"], "the example batch has the images; leave out"
    yield [TARGET, *ASKED, "--dnn", "resnet18"], "the model is the network; leave out --dnn"
    yield [TARGET, *ASKED, "--framework", "tensorflow"], "it makes a model of PyTorch; leave out"
    yield [TARGET, *ASKED, "--server", "emu.server"], "which no parameter servers train; leave out"
    yield [TARGET, *ASKED, "--sequence-length", "9"], "the example batch of your own has the words"
    yield [TARGET, *ASKED, "--worker", "emu.avx512"], "unknown node type 'emu.avx512'; did you mean"


@pytest.mark.parametrize(("words", "told"), list(mistakes()))
def test_mistakes_are_one_line(there: Path, words: list[str], told: str) -> None:
    assert told in stepcast("predict", *words).refusal


def test_a_home_without_a_history_says_so_before_the_model_is_built(
    there: Path, home: Path
) -> None:
    assert "nothing has been measured in" in stepcast("predict", TARGET, *ASKED).refusal


def test_a_profile_on_machines_of_others_is_refused(there: Path) -> None:
    given = ["--worker", WORKER, "--batch-size", "8"]
    answer = stepcast("profile", TARGET, *given, "--backend", "ssh")
    assert (
        answer.code,
        "machines of a fleet do not see the files of your model" in answer.err,
    ) == (2, True)
    assert "expected package.module:function" in stepcast("profile", "my_model", *given).refusal
