"""Models of users: built and traced in child processes, and by themselves."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import dedent

import pytest
import torch
from torch import nn

import networks
from networks import catalogue, extraction
from networks.operation_graph import OperationGraph
from networks.own_function import UserFunction
from networks.own_model import MOST_UNKNOWN, NoGraph, OwnModel, own_model, tracing
from networks.own_torch import ModuleAndBatch, NothingTrained, OwnNetwork, split_module_and_batch
from networks.own_training import own_network
from tests.networks.test_own_identity import traced
from tests.networks.test_primitive_graph import Forward
from tests.warehouse.test_child_process import ends
from warehouse.durable_files import sweep_home

PACKAGE = {
    "models/__init__.py": """
        from torch import nn
        from networks.layers import block

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.block, self.head = block(), nn.Linear(8, 4)

            def forward(self, images):
                return self.head(self.block(images).relu().mean((2, 3)))
        """,
    "networks/__init__.py": "",
    "networks/layers.py": """
        from torch import nn

        def block():
            return nn.Conv2d(3, 8, 3, bias=False)
        """,
    "assets/__init__.py": "MINE = True",
    "mine.py": """
        import atexit
        import os
        import subprocess
        import time
        import torch
        from assets import MINE
        from models import Net
        from torch import nn

        def build_model(batch_size):
            print("Loading … {garbage}", flush=True)
            os.write(1, b"more of it")
            atexit.register(lambda: open("ended", "w").close())
            return Net(), torch.zeros(batch_size, 3, 20, 20)

        def waits_with_another(batch_size):
            other = subprocess.Popen(["sleep", "600"])
            with open("processes.new", "w") as file:
                file.write(f"{os.getpid()} {other.pid}")
            os.rename("processes.new", "processes")
            other.wait()

        def takes_memory(batch_size):
            layer = nn.Linear(1 << 15, 1 << 15)
            layer.weight.sum().item()
            return layer, torch.zeros(batch_size, 1 << 15)

        def fills_memory(batch_size):
            return nn.Linear(1 << 15, 1 << 15), torch.zeros(batch_size, 1 << 15)

        def leaves():
            os._exit(0)

        def waits():
            with open("process", "w") as file:
                file.write(str(os.getpid()))
            time.sleep(600)
        """,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a user's folder, with packages of the names of ours."""
    place = tmp_path_factory.mktemp("user")
    for name, text in PACKAGE.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(dedent(text))
    return place


def test_packages_of_the_names_of_ours_are_the_users_in_a_child_process(folder: Path) -> None:
    model = own_model("mine:build_model", (4, 6), folder)
    assert (folder / "ended").exists(), "what the user's code leaves to its end is done"
    graph = model.graph
    assert graph is not None and model.framework == "pytorch"
    assert [node.type for node in graph.nodes] == ["input", "conv", "global_pool", "linear", "bias"]
    assert [node.parameters for node in graph.nodes] == [0, 8 * 3 * 9, 0, 8 * 4, 4]
    assert graph.nodes[1].flops == 2 * 8 * 3 * 9 * 18 * 18
    assert (graph.image_size, graph.parameter_count) == (20, 252)
    assert graph.dnn == model.dnn and graph.dnn.startswith(catalogue.OWN) and len(graph.dnn) == 12
    for size in (4, 6):
        step = model.steps[size]
        assert isinstance(step, OperationGraph)
        convolved = [
            operation for operation in step.operations if operation.type == "aten::convolution"
        ]
        assert [operation.flops for operation in convolved] == [size * 2 * 8 * 3 * 9 * 18 * 18]
        assert json.loads(convolved[0].inputs)[0] == [size, 3, 20, 20]
        updates = [operation for operation in step.operations if operation.type == "aten::add_"]
        assert sum(math.prod(json.loads(update.inputs)[0]) for update in updates) == 252


def test_recurrent_layers_are_counted_and_said_to_be_unmeasured() -> None:
    model = traced(lambda size: (nn.LSTM(12, 16, batch_first=True), torch.zeros(size, 5, 12)))
    assert model.graph is not None
    assert model.graph.flops == 2 * 5 * 4 * 16 * (12 + 16)
    assert (model.unmeasured, model.unknown_work, model.too_unknown) == (("aten::lstm",), {}, "")
    assert (model.image_size, model.sample) == (0, (5, 12))
    step = model.steps[4]
    # Its parameters are updated, too: matrices and biases.
    assert isinstance(step, OperationGraph)
    updates = [operation for operation in step.operations if operation.type == "aten::add_"]
    assert (
        sum(math.prod(json.loads(update.inputs)[0]) for update in updates) == model.parameter_count
    )


class Inverse(nn.Linear):
    """The inverse of what a layer gives."""

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """Return it."""
        return torch.linalg.inv(super().forward(given))


def test_a_graph_of_unknown_work_is_given_to_no_system(monkeypatch: pytest.MonkeyPatch) -> None:
    model = traced(lambda size: (Inverse(12, 12), torch.zeros(size, 12, 12)))
    (part,) = model.unknown_work.values()
    assert model.graph is not None and MOST_UNKNOWN < part < 1
    assert model.too_unknown.startswith(f"{model.dnn}: operators of which nobody knows")
    assert f"aten::linalg_inv_ex ({100 * part:.0f} %)" in model.too_unknown
    monkeypatch.setattr(catalogue, "OWN_MODELS", OrderedDict())
    extraction.register_own_model(model)
    with pytest.raises(ValueError, match="aten::linalg_inv_ex"):
        extraction.primitive_graphs([(model.dnn, model.image_size)])
    little = replace(model, unknown_work={"aten::topk": MOST_UNKNOWN / 2})
    assert little.too_unknown == ""


@pytest.mark.parametrize(
    ("function", "timeout_s", "told"),
    [
        ("leaves", 300, "its process ended with exit code 0 before it returned: it said nothing"),
        ("waits", 0.5, "nothing came of it in 0.5 s; let it build the model and return"),
        ("takes_memory", 60, "it asks for values while it is built"),
    ],
)
def test_what_gives_no_graph_or_takes_too_much_is_told_in_a_line(
    folder: Path, function: str, timeout_s: float, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("networks.own_model.most_memory_bytes", lambda: 2 << 30)
    with pytest.raises(NoGraph) as refused:
        own_model(f"mine:{function}", (4,), folder, timeout_s)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_trace_that_nobody_waits_for_ends_with_its_block(folder: Path) -> None:
    pid_file = folder / "process"
    pid_file.unlink(missing_ok=True)
    with tracing("mine:waits", (4,), folder):
        until_s = time.monotonic() + 60
        while not (pid_file.exists() and pid_file.read_text()) and time.monotonic() < until_s:
            time.sleep(0.05)
    assert ends([int(pid_file.read_text())])


KILLED = """
import sys
import time
from pathlib import Path
from networks.own_model import tracing
with tracing("mine:waits_with_another", (4,), Path.cwd()) as traced:
    print("begun", flush=True)
    traced()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("moment", ["begun", "built"])
def test_a_trace_ends_with_who_asked_for_it(
    folder: Path, home: Path, number: signal.Signals, moment: str
) -> None:
    """With all that the model started; its folder is in the home, and the next command's to sweep.

    Killed as soon as the process is begun, its kernel may not know of the parent yet.
    """
    pids = folder / "processes"
    pids.unlink(missing_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(Path(networks.__file__).parents[1])}
    with subprocess.Popen(
        [sys.executable, "-c", KILLED], cwd=folder, env=environment, stdout=subprocess.PIPE
    ) as asking:
        assert asking.stdout is not None
        assert asking.stdout.readline() == b"begun\n"
        until_s = time.monotonic() + 60
        while moment == "built" and not pids.exists() and time.monotonic() < until_s:
            time.sleep(0.05)
        asking.send_signal(number)
    assert moment == "begun" or len(pids.read_text().split()) == 2
    time.sleep(0.5)  # nothing of it begins now
    assert ends([int(pid) for pid in pids.read_text().split()] if pids.exists() else [])
    (left,) = home.iterdir()
    assert sweep_home(home) == [left]
    assert list(home.iterdir()) == []


def test_a_model_is_built_without_its_weights(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4 GiB of weights, where 2 GiB of memory are all there is."""
    monkeypatch.setattr("networks.own_model.most_memory_bytes", lambda: 2 << 30)
    model = own_model("mine:fills_memory", (4,), folder)
    assert model.parameter_count == (1 << 30) + (1 << 15)
    assert not model.weights_bytes


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Return what writes a user's module, and returns its name."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))

    def write(text: str) -> str:
        name = f"of_a_user_{abs(hash(text))}"
        (tmp_path / f"{name}.py").write_text(f"import torch\nfrom torch import nn\n{dedent(text)}")
        return name

    return write


def refusal(target: str) -> str:
    with pytest.raises(ValueError) as refused:
        split_module_and_batch(UserFunction(target, [], [])(2), target)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return nn.Linear(3, 4)", "an example batch, found Linear; return both: `return model,"),
        ("return nn.Linear(3, 4), [[1.0]]", "a dict of tensors by argument, found list"),
        ("return nn.Linear(3, 4), torch.zeros(0, 3)", "found a tensor of shape [0, 3]"),
        ("return nn.Linear(3, 4), torch.eye(3).to_sparse()", "found a tensor of layout sparse_coo"),
        (
            "return nn.Linear(3, 4), torch.nested.nested_tensor([torch.zeros(2, 3)])",
            "found a nested tensor",
        ),
        (
            "raise ModuleNotFoundError('flash attention is needed')",
            ":build: ModuleNotFoundError: flash attention is needed; install that beside stepcast",
        ),
        ("return nn.Linear(3, 4).to('cuda:7'), torch.zeros(2, 3)", "it failed: "),
        ("raise SystemExit('no data')", "it failed: SystemExit: no data"),
    ],
)
def test_a_function_that_makes_something_else(
    module: Callable[[str], str], body: str, told: str
) -> None:
    name = module(f"def build():\n    {body}\n")
    assert told in refusal(f"{name}:build")


def test_functions_and_packages_that_are_not_there(module: Callable[[str], str]) -> None:
    name = module("def build_model():\n    pass\n")
    assert refusal(f"{name}:buildmodel").endswith(f"did you mean {name}:build_model?")
    needy = module("import nothing_of_the_kind\n")
    assert "it imports 'nothing_of_the_kind', which is not there; install that" in refusal(
        f"{needy}:build"
    )
    late = module("def build():\n    import nothing_of_the_kind\n")
    assert "it imports 'nothing_of_the_kind'" in refusal(f"{late}:build")
    assert f"no module '{name}.py'" in refusal(f"{name}.py:build_model")
    assert refusal(f"{name}.py:build_model").endswith(f"write {name}:build_model")
    assert "no module 'nowhere'" in refusal("nowhere.at_all:build")
    assert refusal(":build") == (
        ":build: expected package.module:function, such as models.mine:build"
    )
    broken = module("def build(:\n")
    assert "failed: SyntaxError: invalid syntax" in refusal(f"{broken}:build")


def test_a_module_that_decides_by_values_is_refused_with_the_operator_that_asked() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    from networks.traced import CannotTrace, fields_of

    asks = Forward(lambda own, numbers: numbers if numbers.sum().item() > 0 else -numbers)
    with FakeTensorMode(), pytest.raises(CannotTrace) as refused:
        fields_of(asks, (torch.zeros(2, 5),), "mine", 0, 2)
    reason = "its forward pass asks for values of its tensors (aten::_local_scalar_dense"
    assert reason in str(refused.value)


def test_a_module_that_fails_on_its_own_batch_says_where() -> None:
    from networks.traced import CannotTrace, fields_of

    with pytest.raises(CannotTrace) as refused:
        fields_of(nn.Linear(3, 4), (torch.zeros(2, 5),), "mine", 0, 2)
    assert "its forward pass failed after aten::addmm" in str(refused.value)


class Masked(nn.Module):
    """Words and a mask, two outputs of which the second is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 6)

    def forward(self, words: torch.Tensor, *, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return what was masked, and embeddings."""
        return {"mask": mask, "out": self.words(words) * mask[..., None]}


def test_batches_of_several_tensors_are_given_as_the_function_makes_them() -> None:
    model = Masked()

    def made(size: int) -> ModuleAndBatch:
        return Masked(), (torch.arange(7 * size).reshape(size, 7) % 50,), {"mask": torch.ones(7)}

    network = OwnNetwork(model, *made(2)[1:], made)
    drawn = network.draw(5)
    assert torch.equal(drawn, torch.arange(35).reshape(5, 7) % 50)
    out = network(drawn)
    assert out.shape == (5, 7 * 6)
    network.loss_of(out, torch.zeros(5, dtype=torch.int64)).backward()
    assert model.words.weight.grad is not None
    images = OwnNetwork(nn.Flatten(), (torch.zeros(2, 3, 8, 8),), {}).draw(2)
    assert images.shape == (2, 3, 8, 8) and images.std() > 0
    with pytest.raises(NothingTrained, match="in which no tensor depends on its para"):
        OwnNetwork(nn.Flatten(), (torch.zeros(2, 7),), {})(torch.zeros(2, 7))
    other = OwnNetwork(
        nn.Linear(3, 4), (torch.zeros(2, 3),), {}, lambda size: (nn.Linear(size, 4), (drawn,), {})
    )
    with pytest.raises(ValueError, match="parameters or buffers depend on batch_size"):
        other.draw(5)


@dataclass
class Found:
    """What a detector returns."""

    boxes: list[torch.Tensor]
    scores: dict[str, torch.Tensor]
    name: str = "of no tensor"


class Returns(nn.Module):
    """Returns whatever is made of a product."""

    def __init__(self, make: Callable[[torch.Tensor], object]) -> None:
        super().__init__()
        self.into, self._make = nn.Linear(3, 4), make

    def forward(self, given: torch.Tensor) -> object:
        """Return it."""
        return self._make(self.into(given))


@pytest.mark.parametrize(
    ("make", "outputs"),
    [
        (lambda made: made, 1),
        (lambda made: made[:, 0], 1),
        (lambda made: [made, made.detach()], 1),
        (lambda made: [made, (made * 2, {"more": made.exp()})], 3),
        (lambda made: Found([made, made * 2], {"cls": made.exp()}), 3),
        (lambda made: {"loss": made.sum(), "logits": made}, 0),
        (lambda made: {"boxes": made.sum(), "classes": [made.mean()]}, 0),
        (lambda made: torch.view_as_complex(made.view(-1, 2, 2)), 1),
    ],
)
def test_all_outputs_go_backward_and_a_loss_of_the_models_own_alone(
    make: Callable[[torch.Tensor], object], outputs: int
) -> None:
    model = Returns(make)
    network = OwnNetwork(model, (torch.ones(2, 3),), {})
    out = network(network.draw(2))
    several = out if isinstance(out, tuple) else (out,)
    assert sum(tensor.ndim == 2 and len(tensor) == 2 for tensor in several) == outputs
    loss = network.loss_of(out, torch.zeros(2, dtype=torch.int64))
    loss.backward()
    assert loss.ndim == 0 and model.into.weight.grad is not None
    if outputs > 1:
        entropy = nn.functional.cross_entropy
        each = [entropy(tensor, torch.zeros(2, dtype=torch.int64)) for tensor in several]
        assert torch.allclose(loss, sum(each[1:], each[0]))


def test_beside_our_packages_a_users_of_the_same_names_are_imported(folder: Path) -> None:
    before = dict(sys.modules), list(sys.path), list(sys.meta_path)
    network = own_network("mine:build_model", str(folder))
    assert type(network.module).__module__ == "models"
    assert network(network.draw(3)).shape == (3, 4)
    assert sys.modules["networks"] is networks
    assert (sys.path, sys.meta_path) == before[1:]
    names = {name for name in before[0] if name.startswith(("networks", "models", "assets"))}
    assert all(sys.modules[name] is before[0][name] for name in names)
    assert "networks.layers" not in sys.modules


def test_a_known_model_is_a_network_of_this_process_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from networks.primitives import Primitive, PrimitiveGraph

    monkeypatch.setattr(catalogue, "OWN_MODELS", OrderedDict())
    graph = PrimitiveGraph("own-1234abcd", 24, (Primitive("input"),), (), 0)
    with pytest.raises(networks.UnknownNetwork, match="of which only its name is kept"):
        networks.check("own-1234abcd", 24, "pytorch")
    step = OperationGraph("own-1234abcd", 8, 24, 5, ())
    steps: dict[int, OperationGraph | Path | str] = {8: step, 16: "it fails"}
    model = OwnModel("own-1234abcd", "pytorch", 24, 5, graph, steps)
    extraction.register_own_model(model, ("mine:build", "/there"))
    networks.check("own-1234abcd", 24, "pytorch")
    assert extraction.primitive_graphs([("own-1234abcd", 24)]) == {("own-1234abcd", 24): graph}
    assert catalogue.source("own-1234abcd") == ("mine:build", "/there")
    assert catalogue.source("resnet18") is None
    assert "own-1234abcd" not in networks.names("pytorch")
    assert extraction.extract_graph("own-1234abcd", 8, 24, "pytorch") is step
    for size, reason in ((16, "it fails"), (32, "its training step was not traced")):
        with pytest.raises(ValueError, match=reason):
            extraction.extract_graph("own-1234abcd", size, 24, "pytorch")
    with pytest.raises(networks.UnknownNetwork, match="of which only its name is kept"):
        networks.check("own-1234abcd", 24, "tensorflow")
    with pytest.raises(ValueError, match="was traced with images of 24 pixels a side, found 32"):
        networks.check("own-1234abcd", 32, "pytorch")
