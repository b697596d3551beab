"""What a user's function made, as a PyTorch module and its batch, and as a network that trains.

`networks/own_program.py` loads this file where no package of ours may be imported, so it imports
none.
"""

from collections.abc import Mapping
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
    wrong = [
        tensor for tensor in tensors if not (isinstance(tensor, torch.Tensor) and tensor.numel())
    ]
    if wrong or not tensors or not tensors[0].ndim:
        kind = _kind_of((wrong or tensors or (example,))[0])
        raise ValueError(
            f"{target}: expected as an example batch a tensor, a tuple of tensors, or a dict of "
            f"tensors by argument, found {kind}; its first dimension is the batch: "
            "`torch.zeros(8, 3, 64, 64)`"
        )
    return module, batch, by_name


def without_values(tensor: torch.Tensor, mode: Any) -> torch.Tensor:
    """Return a tensor that has its shape and no values; equal ones of equal tensors."""
    return tensor if isinstance(tensor, FakeTensor) else mode.from_tensor(tensor)


def forget_values(module: torch.nn.Module, mode: Any) -> None:
    """Give a module parameters and buffers that have shapes and no values."""
    for part in module.modules():
        for held in (vars(part)["_parameters"], vars(part)["_buffers"]):
            for name, tensor in held.items():
                held[name] = None if tensor is None else without_values(tensor, mode)
        # Recurrent layers keep a list of their parameters beside.
        if isinstance(part, torch.nn.RNNBase):
            names = part._flat_weights_names  # noqa: SLF001
            part._flat_weights = [getattr(part, name, None) for name in names]  # noqa: SLF001


class OwnNetwork(torch.nn.Module):
    """A model that is called with the first tensor of its batch, and returns logits.

    What else it is called with is the example's, of as many samples. Its output, flattened, is
    taken for logits: of several outputs the first that can be trained.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        batch: tuple[torch.Tensor, ...],
        by_name: dict[str, torch.Tensor],
    ) -> None:
        super().__init__()
        self.module = module
        self._names = [None] * len(batch) + list(by_name)
        self._example = [*batch, *by_name.values()]
        self._sized: tuple[int, list[torch.Tensor]] = 0, []

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return [batch, outputs]."""
        others = self._others(images)
        pairs = list(zip(self._names, [images, *others], strict=True))
        by_place = [tensor for name, tensor in pairs if name is None]
        out = self.module(*by_place, **{name: tensor for name, tensor in pairs if name is not None})
        return _first_trained(out).flatten(1)

    def draw(self, batch_size: int) -> torch.Tensor:
        """Return a batch like the example's first tensor; random, unless it has whole numbers."""
        like = _sized(self._example[0], batch_size)
        return torch.rand_like(like) if like.is_floating_point() else like

    def _others(self, images: torch.Tensor) -> list[torch.Tensor]:
        size, others = self._sized
        if size != len(images):
            others = [_sized(tensor, len(images)).to(images.device) for tensor in self._example[1:]]
            self._sized = len(images), others
        return others


def _sized(example: torch.Tensor, batch_size: int) -> torch.Tensor:
    """Return a tensor of so many samples: the example's, again and again."""
    if not example.ndim:
        return example
    return example[torch.arange(batch_size) % len(example)]


def _first_trained(out: Any) -> torch.Tensor:
    """Return the first tensor of an output that depends on parameters.

    Raises:
        ValueError: there is none.
    """
    values = out.values() if hasattr(out, "values") and not isinstance(out, torch.Tensor) else out
    several = [values] if isinstance(values, torch.Tensor) else list(values)
    for value in several:
        if isinstance(value, torch.Tensor) and value.requires_grad and value.ndim:
            return value
    raise ValueError("the model returns no tensor that depends on its parameters")


def _kind_of(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {list(value.shape)}"
    return type(value).__name__
