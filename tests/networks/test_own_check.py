"""What alters a step is refused with its name, or told; what does not is traced as before."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from networks import own_program

BATCH = 2


class Net(nn.Module):
    """A convolution, a block that a function calls, and logits."""

    def __init__(self, block: Callable[[nn.Module, Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.conv, self.inner, self.head = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3), nn.Linear(8, 4)
        self._block = block or (lambda inner, x: inner(x))

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        logits: Tensor = self.head(self._block(self.inner, self.conv(images)).mean((2, 3)))
        return logits


def images() -> Tensor:
    return torch.zeros(BATCH, 3, 16, 16)


def traced(module: nn.Module, example: Tensor | None = None) -> dict[str, Any]:
    made = module, images() if example is None else example
    return own_program.of_torch(made, "mine:build", [BATCH], own_program.fake_tensors())


def refusal(module: nn.Module, example: Tensor | None = None) -> str:
    with pytest.raises(ValueError) as refused:
        traced(module, example)
    message = str(refused.value)
    assert message.startswith("mine:build: ") and "\n" not in message
    return message


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    yield
    torch.set_float32_matmul_precision("highest")
    torch.use_deterministic_algorithms(False)


def frozen(*names: str) -> nn.Module:
    net = Net()
    for name in names:
        net.get_parameter(name).requires_grad_(False)
    return net


def with_buffer() -> nn.Module:
    net = Net()
    net.inner.register_buffer("table", torch.zeros(3, dtype=torch.float64))
    return net


class Linear4bit(nn.Conv2d):
    """A layer of the library that Q-LoRA uses, by its name."""

    __module__ = "bitsandbytes.nn.modules"


def in_four_bits() -> nn.Module:
    net = Net()
    net.inner = Linear4bit(8, 8, 3)
    return net


def hooked(on_tensor: bool) -> nn.Module:
    net = Net()
    if on_tensor:
        net.inner.weight.register_hook(lambda slope: 2 * slope)
    else:
        net.inner.register_full_backward_hook(lambda *_: None)
    return net


def quantized() -> nn.Module:
    plain = nn.Sequential(nn.Flatten(), nn.Linear(768, 8))
    return torch.ao.quantization.quantize_dynamic(plain, {nn.Linear})


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Net().double(), "parameter conv.weight is float64: return it in float32"),
        (with_buffer, "buffer inner.table is float64: return it in float32"),
        (in_four_bits, "submodule inner (Linear4bit) is quantized (Linear4bit), as of Q-LoRA"),
        (lambda: torch.compile(Net()), "the OptimizedModule is compiled (torch.compile)"),
        (lambda: nn.DataParallel(Net()), "the DataParallel is wrapped in DataParallel"),
        (lambda: torch.jit.script(nn.Sequential(nn.Conv2d(3, 8, 3))), "is a ScriptModule"),
        (quantized, "submodule 1 (Linear) is quantized (Linear)"),
        (lambda: hooked(False), "submodule inner (Conv2d) has hooks in its backward pass"),
        (lambda: hooked(True), "parameter inner.weight has hooks on its gradient"),
        (
            lambda: Net().to(memory_format=torch.channels_last),  # type: ignore[call-overload]
            "parameter conv.weight has the memory format channels_last",
        ),
    ],
)
def test_what_a_module_shows(make: Callable[[], nn.Module], told: str) -> None:
    assert told in refusal(make())


def under_autocast(device: str, *, enabled: bool = True) -> nn.Module:
    def block(inner: nn.Module, x: Tensor) -> Tensor:
        with torch.autocast(device, dtype=torch.bfloat16, enabled=enabled):
            return inner(x).float()

    return Net(block)


def checkpointed(reentrant: bool) -> nn.Module:
    return Net(lambda inner, x: checkpoint(inner, x, use_reentrant=reentrant))


def without_gradients(inner: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        return inner(x)


def offloaded(inner: nn.Module, x: Tensor) -> Tensor:
    with torch.autograd.graph.save_on_cpu():
        return inner(x)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Net().requires_grad_(False), "in which no tensor depends on its parameters"),
        (nn.Flatten, "mine:build: its model returns a tensor of shape"),
        (lambda: under_autocast("cuda"), "the Net runs under autocast (cuda)"),
        (lambda: Net(offloaded), "submodule inner (Conv2d) has hooks on saved tensors"),
        (lambda: Net(lambda inner, x: inner(x.double().float())), "the Net computes in float64"),
        (
            lambda: Net(lambda inner, x: torch.compile(torch.nn.functional.silu)(inner(x))),
            "the Net calls a compiled function (torch.compile)",
        ),
    ],
)
def test_what_a_forward_pass_shows(make: Callable[[], nn.Module], told: str) -> None:
    assert told in refusal(make())


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (Net, []),
        (lambda: frozen("inner.weight"), ["frozen parameters"]),
        (lambda: frozen("head.bias"), []),
        (lambda: checkpointed(True), ["checkpointed activations"]),
        (lambda: checkpointed(False), ["checkpointed activations"]),
        (lambda: Net(without_gradients), ["layers without gradients"]),
        (lambda: Net(lambda inner, x: inner(x.bfloat16().float())), ["half precision"]),
    ],
)
def test_what_networks_that_were_measured_have_not_is_told(
    make: Callable[[], nn.Module], told: list[str]
) -> None:
    found = traced(make())
    assert (found["altered"], found["half"]) == (told, "")
    assert ("error" in found["steps"]["2"]) == (told == ["frozen parameters"])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_models_in_half_precision_train_in_it(dtype: torch.dtype) -> None:
    found = own_program.of_torch(
        (Net().to(dtype), images().to(dtype)),
        "mine:build",
        [BATCH],
        own_program.fake_tensors(),
        ["float32"],
    )
    name = str(dtype).removeprefix("torch.")
    assert (found["altered"], found["half"]) == (["half precision"], name)
    steps = found["gpu_steps"]
    assert steps.keys() == {f"{BATCH} {name}", f"{BATCH} {name}-true"}
    assert {kind for _, kind in steps[f"{BATCH} {name}"]["parameters"]} == {name}


def test_what_a_batch_and_settings_of_the_process_show() -> None:
    assert "its example batch is float64" in refusal(Net(), images().double())
    other = images().to(memory_format=torch.channels_last)
    assert "its example batch has the memory format channels_last" in refusal(Net(), other)
    torch.set_float32_matmul_precision("high")
    assert 'it sets torch.set_float32_matmul_precision("high")' in refusal(Net())
    torch.set_float32_matmul_precision("highest")
    torch.use_deterministic_algorithms(True)
    assert "it sets torch.use_deterministic_algorithms" in refusal(Net())


class Product(torch.autograd.Function):
    """A product whose backward pass is the user's."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        """Return x times the matrix."""
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        """Return the gradients of both."""
        x, weight = ctx.saved_tensors
        return slopes[0] @ weight.T, x.T @ slopes[0]


class Custom(nn.Module):
    """A product of one's own, after a layer whose norm is kept without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.utils.parametrizations.spectral_norm(nn.Linear(6, 5))
        self.weight, self.table = nn.Parameter(torch.zeros(5, 4)), nn.Parameter(torch.zeros(4))

    def forward(self, given: Tensor) -> Tensor:
        """Return logits."""
        table = torch.linspace(0, 1, 4, dtype=torch.float64).float()
        result: Tensor = Product.apply(self.into(given), self.weight)
        return result + table + self.table


def test_what_alters_nothing_is_traced() -> None:
    plain = traced(Net())["graph"]
    assert traced(under_autocast("cpu", enabled=False))["graph"] == plain
    assert not isinstance(traced(Net())["steps"]["2"].get("error"), str)
    custom = traced(Custom(), torch.zeros(BATCH, 6))
    assert "error" not in custom["steps"]["2"]
    words = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(12, 3))
    assert traced(words, torch.zeros(BATCH, 3, dtype=torch.long))["graph"]["parameter_count"] == 75
