"""A user's own model as probes train it, from images to logits, in a program that is ours."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from networks.own_function import UserFunction, batch_dimension
from networks.own_huggingface import PREFIX, from_config
from networks.own_model import hidden_packages
from networks.own_torch import ModuleAndBatch, OwnNetwork, split_module_and_batch

_EXAMPLES = 2


@cache
def own_network(target: str, folder: str) -> OwnNetwork:
    """Return the model that a user's function makes; of one process always the same.

    Raises:
        ValueError: it makes none.
    """

    def built(batch_size: int) -> tuple[ModuleAndBatch, bool]:
        """Return what is made of a batch, and whether it was told the batch."""
        if target.startswith(PREFIX):
            return split_module_and_batch(from_config(target, batch_size, folder), target), True
        with _only_users():
            function = UserFunction(target, [folder], hidden_packages())
            return split_module_and_batch(function(batch_size), target), function.takes_batch

    def made(batch_size: int) -> ModuleAndBatch:
        (module, batch, by_name), is_told = built(batch_size)
        if not is_told:
            batch_dimension([*batch, *by_name.values()], (), batch_size, target)
        return module, batch, by_name

    (module, batch, by_name), _ = built(_EXAMPLES)
    return OwnNetwork(module.train(), batch, by_name, made)


@contextmanager
def _only_users() -> Iterator[None]:
    """Put our packages aside while a user's are imported, which may have the same names."""
    names, finders, path = set(hidden_packages()), list(sys.meta_path), list(sys.path)
    our_modules = {
        name: module for name, module in sys.modules.items() if name.partition(".")[0] in names
    }
    for name in our_modules:
        del sys.modules[name]
    try:
        yield
    finally:
        for name in [module for module in sys.modules if module.partition(".")[0] in names]:
            del sys.modules[name]
        sys.modules.update(our_modules)
        sys.meta_path[:], sys.path[:] = finders, path
