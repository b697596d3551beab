"""Training steps of batches that nobody traced, from those of two that somebody did.

Sizes of tensors and work are those of both traces where these are equal, and proportional to the
batch where both are; where all are one or the other, and calls follow each other alike, a trace of
any batch would have such numbers. Otherwise nobody knows without tracing.

`networks/own_program.py` loads this file where no package of ours may be imported.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

FEWEST = 2
"""Samples of the smallest batch that others follow from: one alone may be asked for otherwise."""
_BLOCK_BYTES = 512
"""What PyTorch's allocator of CUDA's memory hands out (CUDACachingAllocator)."""
_SUMS = ("input_bytes", "output_bytes")
"""Bytes of the batch and of parameters together."""
_PEAKS = ("peak_bytes", "without_gradients_bytes", "activation_bytes")
_NUMBER = re.compile(r"(\d+)")
Fields = Mapping[str, Any]


class _NotAlike(ValueError):
    """Traces differ by more than their batch."""


def steps_at(traced: Fields, batch_sizes: Collection[int]) -> dict[str, Any] | None:
    """Return what was traced of a model, with its steps at batches; None: these have to be traced.

    Args:
        traced: as `networks.own_program` writes it, with steps at some batches.
        batch_sizes: of which steps are wanted.
    """
    known: dict[int, tuple[Any, dict[str, Any]]] = {
        int(size): (step, {}) for size, step in traced["steps"].items()
    }
    for name, step in traced["gpu_steps"].items():
        size, precision = name.split(" ")
        known[int(size)][1][precision] = step
    try:
        wanted = {size: known.get(size) or _scaled(known, size) for size in batch_sizes}
    except _NotAlike:
        return None
    return {
        **traced,
        "steps": {str(size): step for size, (step, _) in wanted.items()},
        "gpu_steps": {
            f"{size} {precision}": step
            for size, (_, gpu_steps) in wanted.items()
            for precision, step in gpu_steps.items()
        },
    }


def most_alive(sizes: Sequence[int], changes: Sequence[int], others: Collection[int]) -> int:
    """Return the most bytes that were alive at once, without those of some storages.

    Args:
        sizes: bytes of each storage.
        changes: numbers of storages, from one, as they began; negative, as they ended.
        others: numbers of storages, from nought, that do not count.
    """
    alive = most = 0
    for change in changes:
        number = abs(change) - 1
        if number not in others:
            block_bytes = -(-sizes[number] // _BLOCK_BYTES) * _BLOCK_BYTES
            alive += block_bytes if change > 0 else -block_bytes
            most = max(most, alive)
    return most


def _scaled(known: Mapping[int, tuple[Any, dict[str, Any]]], size: int) -> tuple[Any, Any]:
    """Return the steps of a batch from those of the smallest and the largest that were traced."""
    traced = [each for each in known if each >= FEWEST]
    if len(traced) < 2 or size < FEWEST:
        raise _NotAlike
    scaling = _Scaling(min(traced), max(traced), size)
    (step, gpu_steps), (larger, of_larger) = known[min(traced)], known[max(traced)]
    if gpu_steps.keys() != of_larger.keys():
        raise _NotAlike
    at_size = {name: scaling.gpu_step(gpu_steps[name], of_larger[name]) for name in gpu_steps}
    return scaling.value(step, larger), at_size


class _Scaling:
    """From batches `small` and `large` to `wanted`; what is no number has to be equal."""

    def __init__(self, small: int, large: int, wanted: int) -> None:
        self._small, self._large, self._wanted = small, large, wanted

    def gpu_step(self, small: Fields, large: Fields) -> dict[str, Any]:
        """Return a step as `networks.gpu_trace` has it, of which calls are noted that differ."""
        if "error" in small or "error" in large:
            return dict(self.value(small, large))
        if len(small["order"]) != len(large["order"]):
            raise _NotAlike
        apart = ("operators", "order", "digest", "kept", *_PEAKS)
        rest = [{name: step[name] for name in step if name not in apart} for step in (small, large)]
        step: dict[str, Any] = {"operators": [], "order": [], **self.value(*rest)}
        numbers, of_pair = dict[str, int](), dict[tuple[int, int], int]()
        for pair in zip(small["order"], large["order"], strict=True):
            if pair not in of_pair:  # at one of both batches, other calls may be alike
                operator = self.value(small["operators"][pair[0]], large["operators"][pair[1]])
                of_pair[pair] = numbers.setdefault(repr(operator), len(numbers))
                step["operators"] += [operator] * (len(numbers) - len(step["operators"]))
            step["order"].append(of_pair[pair])
        flow = step["flow"]
        for name, others in zip(_PEAKS, ((), flow["gradients"], flow["divided"]), strict=True):
            step[name] = most_alive(step["sizes"], step["changes"], set(others))
        if "kept" in small:
            step["kept"] = self.gpu_step(small["kept"], large["kept"])
        return step

    def value(self, small: Any, large: Any) -> Any:
        """Return what takes the place of two values of JSON.

        Raises:
            _NotAlike: they differ by more than the batch.
        """
        if small == large:
            return small
        match small, large:
            case dict(), dict() if small.keys() == large.keys():
                return {
                    name: (self._sum if name in _SUMS else self.value)(each, large[name])
                    for name, each in small.items()
                }
            case list(), list() if len(small) == len(large):
                return list(map(self.value, small, large))
            case str(), str():
                parts, others = _NUMBER.split(small), _NUMBER.split(large)
                if parts[::2] == others[::2]:
                    numbers = map(self.value, map(int, parts[1::2]), map(int, others[1::2]))
                    parts[1::2] = map(str, numbers)
                    return "".join(parts)
            case int() | float(), int() | float() if small * self._large == large * self._small:
                return self._sum(small, large)
        raise _NotAlike

    def _sum(self, small: float, large: float) -> float:
        """Return what is proportional to the batch in part."""
        each = (large - small) / (self._large - self._small)
        scaled = small + (self._wanted - self._small) * each
        return int(scaled) if isinstance(small, int) else scaled
