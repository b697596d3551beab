"""A user's own model as probes train it, from images to logits, in a program that is ours."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

from networks.own_model import hidden
from networks.own_program import CannotBuild, built

_EXAMPLES = 2


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
        by_place = [one for name, one in pairs if name is None]
        out = self.module(*by_place, **{name: one for name, one in pairs if name is not None})
        return _first_trained(out).flatten(1)

    def draw(self, batch_size: int) -> torch.Tensor:
        """Return a batch like the example's first tensor; random, unless it has whole numbers."""
        like = _sized(self._example[0], batch_size)
        return torch.rand_like(like) if like.is_floating_point() else like

    def _others(self, images: torch.Tensor) -> list[torch.Tensor]:
        size, found = self._sized
        if size != len(images):
            found = [_sized(one, len(images)).to(images.device) for one in self._example[1:]]
            self._sized = len(images), found
        return found


@cache
def own_network(target: str, folder: str) -> OwnNetwork:
    """Return the model that a user's function makes; of one process always the same.

    Raises:
        CannotBuild: it makes none.
    """
    with _only_users():
        module, batch, by_name = built(target, _EXAMPLES, [folder], hidden())
    return OwnNetwork(module.train(), batch, by_name)


@contextmanager
def _only_users() -> Iterator[None]:
    """Put our packages aside while a user's are imported, which may have the same names."""
    names, finders, path = set(hidden()), list(sys.meta_path), list(sys.path)
    ours = {name: one for name, one in sys.modules.items() if name.partition(".")[0] in names}
    for name in ours:
        del sys.modules[name]
    try:
        yield
    finally:
        for name in [one for one in sys.modules if one.partition(".")[0] in names]:
            del sys.modules[name]
        sys.modules.update(ours)
        sys.meta_path[:], sys.path[:] = finders, path


def _sized(example: torch.Tensor, batch_size: int) -> torch.Tensor:
    """Return a tensor of so many samples: the example's, again and again."""
    if not example.ndim:
        return example
    return example[torch.arange(batch_size) % len(example)]


def _first_trained(out: Any) -> torch.Tensor:
    """Return the first tensor of an output that depends on parameters.

    Raises:
        CannotBuild: there is none.
    """
    values = out.values() if hasattr(out, "values") and not isinstance(out, torch.Tensor) else out
    several = [values] if isinstance(values, torch.Tensor) else list(values)
    for one in several:
        if isinstance(one, torch.Tensor) and one.requires_grad and one.ndim:
            return one
    raise CannotBuild("the model returns no tensor that depends on its parameters")
