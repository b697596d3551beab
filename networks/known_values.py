"""Tensors without values, of which whole numbers are known where they depend on no weight.

Masks, positions, sizes of images and places of words decide what a model computes. They come from
its batch and from constants, so they are computed beside the tensors that PyTorch fakes. What
depends on weights is asked for in vain, or is made up, always alike:

* places that are chosen by value (`topk`, `argmax`, `sort`) are spread evenly, as routers of
  experts are trained to spread rows;
* an unknown mask is true wherever it decides a shape;
* a number that is drawn is 0.5, so that no layer is dropped at random;
* a number that is asked for (`.item()`) is true, 1 or 0.5.

`networks/own_program.py` loads this file where no package of ours may be imported.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

_MOST_WHOLE, _MOST_REAL = 1 << 22, 1 << 16
"""Numbers of a tensor whose values are computed."""
_aten = torch.ops.aten
_FILLED = {
    **dict.fromkeys(("zeros", "zeros_like", "new_zeros", "empty", "empty_like", "new_empty"), 0),
    **dict.fromkeys(("ones", "ones_like", "new_ones"), 1),
    **dict.fromkeys(("full", "full_like", "new_full", "scalar_tensor"), None),
}
"""What makes tensors of one value, whatever it is given; None: of one of its arguments."""
_MADE = ("arange", "linspace", "eye", "tril_indices", "triu_indices", "lift_fresh")
_CHOSEN = ("topk", "argmax", "argmin", "max", "min", "sort")
_BY_VALUES = frozenset(
    {
        *("nonzero", "masked_select", "repeat_interleave", "_unique2", "unique_consecutive"),
        *("unique_dim", "_unique", "bincount", "_local_scalar_dense", "equal", "is_nonzero"),
    }
)
"""Operators whose results have shapes, or are numbers, that depend on values."""


_asked = count()
_MOST_ASKED = 20_000
"""Truths that are made up for a model: whoever waits for another in a loop waits for ever."""


def value_of(tensor: torch.Tensor) -> bool | int | float:
    """Return the number in a tensor of one; one that is made up where nobody knows it.

    Raises:
        ValueError: truths are asked for without end.
    """
    if (known := _known(tensor)) is not None:
        with no_dispatch():
            return known.item()
    if tensor.dtype == torch.bool:
        if next(_asked) > _MOST_ASKED:
            raise ValueError(
                "its training step asks for values until one is false, which tracing cannot know"
            )
        return True
    return 0.5 if tensor.dtype.is_floating_point else 1


class KnownValues(FakeTensorMode):  # type: ignore[no-untyped-call]
    """Fakes tensors, and keeps the values of those that depend on no weight.

    Where it makes up no values, who asks for one that is not known gets PyTorch's own error.
    """

    def __init__(self, *, makes_up: bool = False) -> None:
        super().__init__(allow_non_fake_inputs=True)
        self._makes_up = makes_up

    def from_tensor(self, tensor: torch.Tensor, **settings: Any) -> FakeTensor:
        """Return a tensor without values; whole numbers are kept beside it."""
        fake = super().from_tensor(tensor, **settings)
        if not (tensor.is_floating_point() or tensor.is_complex() or tensor.device.type == "meta"):
            with no_dispatch():
                _keep(fake, tensor.detach().clone())
        return fake

    def dispatch(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return what an operator makes, with its values where they are known."""
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload) or func.namespace != "aten":  # noqa: SLF001
            return super().dispatch(func, types, args, kwargs)
        name = func._opname  # noqa: SLF001
        flat, spec = tree_flatten((list(args), dict(kwargs)))
        tensors = [value for value in flat if isinstance(value, torch.Tensor)]
        if name == "_grouped_mm":
            return _grouped(*args, **kwargs)
        if name == "_local_scalar_dense" and (self._makes_up or _known(args[0]) is not None):
            return value_of(args[0])
        if name == "index" or (name in _BY_VALUES and not (tensors and _all_known(tensors))):
            replaced = self._by_known_places(func, name, args, kwargs)
            if replaced is not NotImplemented:
                return replaced
        known = self._computed(func, name, tensors, flat, spec)
        if known is not None and name in _BY_VALUES:
            return tree_map_only(torch.Tensor, self._faked, known)
        made: Any = super().dispatch(func, types, args, kwargs)
        if known is not None:
            for fake, values in zip(_flat(made), _flat(known), strict=False):
                _keep(fake, values)
        elif name in _FILLED:
            _keep_filled(made, name, args)
        elif name == "rand" and not made.ndim and self._makes_up:
            with no_dispatch():
                _keep(made, torch.full((), 0.5))
        elif name in _CHOSEN and self._makes_up:
            _keep_spread(made, func, args, kwargs)
        if known is None and func._schema.is_mutable:  # noqa: SLF001
            for argument, value in zip(func._schema.arguments, args, strict=False):  # noqa: SLF001
                if argument.alias_info is not None and argument.alias_info.is_write:
                    _forget(value)
        return made

    def _computed(
        self, func: Any, name: str, tensors: Sequence[torch.Tensor], flat: list[Any], spec: Any
    ) -> Any:
        """Return what an operator makes of values that are known; None: they are not."""
        if not (_all_known(tensors) if tensors else name in _MADE):
            return None
        if torch.Tag.nondeterministic_seeded in func.tags:
            return None
        by_known = [_known(each) if isinstance(each, torch.Tensor) else each for each in flat]
        args, kwargs = tree_unflatten(by_known, spec)
        try:
            with no_dispatch():
                return func(*args, **kwargs)
        except Exception:
            return None

    def _faked(self, known: torch.Tensor) -> torch.Tensor:
        with no_dispatch():
            apart = known.clone()
        fake = super().from_tensor(apart)
        _keep(fake, apart)
        return fake

    def _by_known_places(
        self, func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Return what an operator makes whose shape is that of a mask, of the mask's places."""
        within = {"index": args[1], "masked_select": args[1:2]} if len(args) > 1 else {}
        masks = list(filter(_is_mask, within.get(name, ())))
        if not (self._makes_up or (masks and _all_known(masks))):
            return NotImplemented
        if name == "index":
            if not masks:
                return NotImplemented
            places = list[Any]()
            for place in args[1]:
                if _is_mask(place):
                    mask = _known(place)
                    with no_dispatch():
                        if mask is None:
                            mask = torch.ones(place.shape, dtype=torch.bool)
                        found = mask.nonzero().unbind(1)
                    places += map(self._faked, found)
                else:
                    places.append(place)
            with self:
                return _aten.index(args[0], places)
        if name == "masked_select":
            with self:
                shape: Any = torch.broadcast_shapes(args[0].shape, args[1].shape)  # type: ignore[no-untyped-call]
                return _aten.index(args[0].expand(shape), [args[1].expand(shape)])
        if name in ("nonzero", "repeat_interleave"):
            tensor = args[0]
            with no_dispatch():
                like = torch.ones(tensor.shape, dtype=tensor.dtype)
                made = func(like, *args[1:], **kwargs)
            return self._faked(made)
        if name in ("_unique2", "unique_consecutive", "unique_dim", "_unique"):
            with no_dispatch():
                like = torch.arange(args[0].numel()).to(args[0].dtype).reshape(args[0].shape)
                made = func(like, *args[1:], **kwargs)
            return tree_map_only(torch.Tensor, self._faked, made)
        if name in ("equal", "is_nonzero"):
            return True
        return NotImplemented


def _known(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the values of a tensor, None where they are not known."""
    if not isinstance(tensor, FakeTensor):
        if isinstance(tensor, torch.nn.Parameter) or tensor.device.type != "cpu":
            return None
        with no_dispatch():
            return tensor.detach().clone() if _is_small(tensor) else None
    known: torch.Tensor | None = getattr(tensor, "known_values", None)
    # Who shares its numbers may have written others that nobody knows.
    if known is None or known.untyped_storage()._cdata in _forgotten:  # noqa: SLF001
        return None
    return known


def _formatted(tensor: FakeTensor, how: str) -> str:
    """Return a number as a real tensor is formatted: some name their experts so."""
    known = None if tensor.ndim else _known(tensor)
    return repr(tensor) if known is None else format(value_of(tensor), how)


FakeTensor.__format__ = _formatted  # type: ignore[method-assign, assignment]


_forgotten: dict[int, torch.Tensor] = {}
"""Storages of values that were written over, kept so that no other takes their number."""


def _forget(value: object) -> None:
    for tensor in value if isinstance(value, list | tuple) else (value,):
        known = getattr(tensor, "known_values", None)
        if known is not None:
            _forgotten[known.untyped_storage()._cdata] = known  # noqa: SLF001


def _all_known(tensors: Sequence[torch.Tensor]) -> bool:
    return all(_known(tensor) is not None for tensor in tensors)


def _is_small(tensor: torch.Tensor) -> bool:
    whole = not (tensor.is_floating_point() or tensor.is_complex())
    return tensor.numel() <= (_MOST_WHOLE if whole else _MOST_REAL)


def _keep(fake: object, known: torch.Tensor) -> None:
    if isinstance(fake, FakeTensor) and _is_small(known) and fake.shape == known.shape:
        fake.known_values = known  # type: ignore[attr-defined]


def _flat(values: Any) -> Iterator[torch.Tensor]:
    for value in values if isinstance(values, list | tuple) else (values,):
        if isinstance(value, torch.Tensor):
            yield value


def _keep_filled(made: Any, name: str, args: Sequence[Any]) -> None:
    value = _FILLED[name]
    if value is None:
        value = args[0 if name == "scalar_tensor" else 2 if name == "new_full" else 1]
    real = made.dtype.is_floating_point or made.dtype.is_complex
    if isinstance(value, int | float) and _is_small(made) and not (real and "empty" in name):
        with no_dispatch():
            _keep(made, torch.full(made.shape, value, dtype=made.dtype))


def _keep_spread(made: Any, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Let places that are chosen by unknown values be spread evenly along their dimension."""
    *_, places = _flat(made)
    if places.dtype != torch.int64 or not places.ndim or not _is_small(places):
        return
    names = [argument.name for argument in func._schema.arguments]  # noqa: SLF001
    given, dim = args[0], {**dict(zip(names, args, strict=False)), **kwargs}.get("dim", -1)
    if "dim" not in names or dim is None or places.ndim != given.ndim:
        length, dim = given.numel() if dim is None else given.shape[dim], -1
    else:
        length = given.shape[dim]
    with no_dispatch():
        sizes = list(places.shape)
        sizes.append(sizes.pop(dim))
        spread = torch.arange(places.numel()).remainder(max(length, 1)).reshape(sizes)
        _keep(places, spread.movedim(-1, dim).contiguous())


def _is_mask(place: object) -> bool:
    return isinstance(place, torch.Tensor) and place.dtype in (torch.bool, torch.uint8)


def _grouped(
    left: torch.Tensor, right: torch.Tensor, offsets: torch.Tensor | None = None, *_: Any, **__: Any
) -> torch.Tensor:
    """Return what products of experts make: rows of all, or a matrix of each."""
    if left.ndim == right.ndim == 2:
        assert offsets is not None
        return left.new_empty((len(offsets), left.shape[0], right.shape[1]))
    return left.new_empty((*left.shape[:-1], right.shape[-1]))
