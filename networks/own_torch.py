"""What a user's function made, as a PyTorch module and its batch, and as a network that trains.

`networks/own_program.py` loads this file where no package of ours may be imported, so it imports
none.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import reduce
from itertools import chain
from operator import add
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

ModuleAndBatch = tuple[torch.nn.Module, tuple[torch.Tensor, ...], dict[str, torch.Tensor]]
"""A module, the tensors it is called with in order, and those it is given by name."""


def split_module_and_batch(made: object, target: str) -> ModuleAndBatch:
    """Return a module and its batch: tensors in order, and tensors by name.

    Raises:
        ValueError: it is something else; the message says what to return.
    """
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], torch.nn.Module)):
        kind = f"({', '.join(map(_kind_of, made))})" if isinstance(made, tuple) else _kind_of(made)
        raise ValueError(
            f"{target}: expected a torch.nn.Module or a Keras model, and an example batch, found "
            f"{kind}; return both: `return model, torch.zeros(8, 3, 64, 64)`"
        )
    module, example = made
    by_name = dict(example) if isinstance(example, Mapping) else {}
    several = example if isinstance(example, list | tuple) else (example,)
    batch = () if by_name else tuple(several)
    tensors = (*batch, *by_name.values())
    wrong = [tensor for tensor in tensors if not _is_plain(tensor)]
    if wrong or not tensors or not tensors[0].ndim:
        kind = _kind_of((wrong or tensors or (example,))[0])
        raise ValueError(
            f"{target}: expected as an example batch a tensor, a tuple of tensors, or a dict of "
            f"tensors by argument, found {kind}; its first dimension is the batch: "
            "`torch.zeros(batch_size, 3, 64, 64)`"
        )
    return module, batch, by_name


def _is_plain(tensor: object) -> bool:
    """Tell whether something is a tensor of numbers side by side, neither sparse nor nested."""
    return (
        isinstance(tensor, torch.Tensor)
        and not tensor.is_nested
        and tensor.layout is torch.strided
        and tensor.numel() > 0
    )


def without_values(tensor: torch.Tensor, mode: Any) -> torch.Tensor:
    """Return a tensor that has its shape and no values; equal ones of equal tensors."""
    if tensor.device.type == "meta":
        with mode, torch.no_grad():
            return torch.empty_like(tensor, device="cpu")
    return tensor if isinstance(tensor, FakeTensor) else mode.from_tensor(tensor)


def exchange_tensors(
    module: torch.nn.Module, exchange: Callable[[torch.Tensor], torch.Tensor]
) -> Callable[[], None]:
    """Give a module other parameters and buffers; return what gives it back those that it had.

    Args:
        module: whose tensors, also those that parts share, are exchanged once each.
        exchange: returns what takes the place of a tensor, perhaps the same.
    """
    before = list[tuple[dict[str, Any], str, torch.Tensor]]()
    others = dict[int, torch.Tensor]()
    for part in module.modules():
        for held in (vars(part)["_parameters"], vars(part)["_buffers"]):
            for name, tensor in held.items():
                if tensor is None:
                    continue
                before.append((held, name, tensor))
                if id(tensor) not in others:
                    other = exchange(tensor)
                    if isinstance(tensor, torch.nn.Parameter) != isinstance(
                        other, torch.nn.Parameter
                    ):
                        other = torch.nn.Parameter(other.detach(), tensor.requires_grad)
                    others[id(tensor)] = other
                held[name] = others[id(tensor)]
    _list_recurrent(module)

    def undo() -> None:
        for held, name, tensor in before:
            held[name] = tensor
        _list_recurrent(module)

    return undo


@contextmanager
def building_without_values() -> Iterator[None]:
    """Let modules that are built of tensors without values be cast, and not be initialised.

    PyTorch swaps tensors of a module that is cast, which fakes refuse; and it draws some weights
    until all are within bounds.
    """
    init: Any = torch.nn.init
    kind: Any = torch.nn.Module
    drawn, applied = init._no_grad_trunc_normal_, kind._apply  # noqa: SLF001

    def apply(module: torch.nn.Module, function: Any, recurse: bool = True) -> torch.nn.Module:
        with torch.no_grad():
            exchange_tensors(module, function)
        return module

    init._no_grad_trunc_normal_ = lambda tensor, *_, **__: tensor
    kind._apply = apply  # noqa: SLF001
    try:
        yield
    finally:
        init._no_grad_trunc_normal_, kind._apply = drawn, applied  # noqa: SLF001


def _list_recurrent(module: torch.nn.Module) -> None:
    """Give recurrent layers the list of their parameters that they keep beside."""
    for part in module.modules():
        if isinstance(part, torch.nn.RNNBase):
            names = part._flat_weights_names  # noqa: SLF001
            part._flat_weights = [getattr(part, name, None) for name in names]  # noqa: SLF001


def trained_in_half(module: torch.nn.Module) -> str | None:
    """Return the half precision that all trained parameters are in; None: some are not."""
    dtypes = {parameter.dtype for parameter in module.parameters() if parameter.requires_grad}
    one_of_two = len(dtypes) == 1 and dtypes < {torch.bfloat16, torch.float16}
    return str(dtypes.pop()).removeprefix("torch.") if one_of_two else None


def real_bytes(module: torch.nn.Module) -> int:
    """Return the bytes of parameters that have values."""
    parameters = (each for each in module.parameters() if not isinstance(each, FakeTensor))
    return sum(each.nbytes for each in parameters if each.device.type != "meta")


class OwnNetwork(torch.nn.Module):
    """A model that is called with the first tensor of its batch, and has a loss.

    What else it is called with is what the user's function gave beside that tensor.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        batch: tuple[torch.Tensor, ...],
        by_name: dict[str, torch.Tensor],
        made: Callable[[int], ModuleAndBatch] | None = None,
    ) -> None:
        """Keep a model and its inputs.

        Args:
            module: the model.
            batch: what it is called with in order, as the user's function gave it.
            by_name: what it is called with by name.
            made: what the function makes of another batch; None: it is not asked for another.
        """
        super().__init__()
        self.module = module
        self._names = [None] * len(batch) + list(by_name)
        self.inputs = [*batch, *by_name.values()]
        self._made, self._drawn_size = made, 0

    def forward(self, first: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """Return what `loss_of` takes: outputs of a row a sample, several as a tuple; or a loss.

        Raises:
            NothingTrained: no output depends on a parameter.
        """
        others = [tensor.to(first.device) for tensor in self.inputs[1:]]
        pairs = list(zip(self._names, [first, *others], strict=True))
        by_place = [tensor for name, tensor in pairs if name is None]
        return _trained(
            self.module(*by_place, **{name: tensor for name, tensor in pairs if name is not None})
        )

    @staticmethod
    def loss_of(out: torch.Tensor | tuple[torch.Tensor, ...], labels: torch.Tensor) -> torch.Tensor:
        """Return the sum of the cross-entropies of all outputs; a loss of the model's own as it is.

        Rows that are not as many as the samples have labels of their own, all of the first class.
        """
        if isinstance(out, tuple):
            return reduce(add, (OwnNetwork.loss_of(each, labels) for each in out))
        if not out.ndim:
            return out
        labels = labels if len(out) == len(labels) else labels.new_zeros(len(out))
        return torch.nn.functional.cross_entropy(out.float(), labels)

    def draw(self, batch_size: int) -> torch.Tensor:
        """Return the first tensor of a batch; random, unless it has whole numbers.

        Raises:
            ValueError: the user's function gives another batch, or another model with it.
        """
        if self._made is not None and batch_size != self._drawn_size:
            module, batch, by_name = self._made(batch_size)
            if _shapes(module) != _shapes(self.module):
                raise ValueError("the model's parameters or buffers depend on batch_size")
            self.inputs[:], self._drawn_size = [*batch, *by_name.values()], batch_size
        like = self.inputs[0]
        return torch.rand_like(like) if like.is_floating_point() else like


def network_without_values(
    module: torch.nn.Module,
    batch: Sequence[torch.Tensor],
    by_name: Mapping[str, torch.Tensor],
    mode: Any,
) -> OwnNetwork:
    """Return a model that has shapes and no values, of weights and of its batch."""
    fakes = tuple(without_values(tensor, mode) for tensor in batch)
    named = {name: without_values(tensor, mode) for name, tensor in by_name.items()}
    exchange_tensors(module.train(), lambda tensor: without_values(tensor, mode))
    return OwnNetwork(module, fakes, named)


def _shapes(module: torch.nn.Module) -> list[tuple[str, torch.Size]]:
    return [(name, tensor.shape) for name, tensor in module.state_dict().items()]


class NothingTrained(ValueError):
    """A model returns nothing that its training could begin with."""


def _trained(out: object) -> torch.Tensor | tuple[torch.Tensor, ...]:
    """Return what of a model's output goes backward: its losses, else all that can, flattened.

    Raises:
        NothingTrained: nothing depends on a parameter.
    """
    trained = [tensor for tensor in _tensors_of(out) if tensor.requires_grad]
    if losses := [tensor for tensor in trained if not tensor.ndim]:
        return reduce(add, losses)
    real = (torch.view_as_real(tensor) if tensor.is_complex() else tensor for tensor in trained)
    rows = tuple(tensor.flatten(1) if tensor.ndim > 1 else tensor[:, None] for tensor in real)
    if not rows:
        raise NothingTrained(
            f"its model returns {_kind_of(out)}, in which no tensor depends on its parameters; "
            "return a tensor whose first dimension is the batch, or a list, tuple, dict or "
            "dataclass of such, or a loss"
        )
    return rows[0] if len(rows) == 1 else rows


def _tensors_of(out: object) -> Iterator[torch.Tensor]:
    """Yield the tensors of an output, however deep lists, dicts and dataclasses are."""
    if isinstance(out, torch.Tensor):
        yield out
    elif isinstance(out, Mapping):
        yield from chain.from_iterable(map(_tensors_of, out.values()))
    elif isinstance(out, list | tuple):
        yield from chain.from_iterable(map(_tensors_of, out))
    elif is_dataclass(out):
        yield from (
            tensor for part in fields(out) for tensor in _tensors_of(getattr(out, part.name))
        )


def _kind_of(value: object) -> str:
    if isinstance(value, torch.Tensor) and value.is_nested:
        return "a nested tensor"
    if isinstance(value, torch.Tensor) and value.layout is not torch.strided:
        return f"a tensor of layout {str(value.layout).removeprefix('torch.')}"
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {list(value.shape)}"
    return type(value).__name__
