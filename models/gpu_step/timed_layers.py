"""Layers of transformers of Megatron-DeepSpeed that Sailor timed, forward and backward.

Source: eth-easl/sailor, Megatron-DeepSpeed's `megatron/model/{opt,gpt_neo}_model.py`: attention by
products, a mask and a softmax; biases of the projections of queries, keys and values alone.
"""

from collections.abc import Iterator, Mapping, Sequence

from models.gpu_step.device import devices
from models.gpu_step.measurements import MeasuredPasses
from models.gpu_step.operators import work_of
from models.gpu_step.public_rows import Fields, Shape, by_subject, call
from models.gpu_step.step import in_tf32
from models.gpu_step.timed_passes import backward_of, dropout
from networks.gpu_steps import Operator

_TOKENS = 2048
_MASKED = 4
"""Place of the mask in a layer. It is filled into a view of scores in place, of which automatic
differentiation copies the gradient, its slice, and the slice again where it belongs (PyTorch,
torch/csrc/autograd/functions/tensor.cpp, `CopySlices`)."""
_COPIES_OF_SLICES = 3
_MODELS: Mapping[str, tuple[int, int, bool]] = {
    "OPT-350": (1024, 16, True),
    "GPT-Neo-2.7": (2560, 20, True),
    "OPT-30": (7168, 56, False),
}
"""Hidden size, heads, and whether products have TF32 where a GPU has it (by their speed)."""


def sailor_layers(rows: Sequence[Fields]) -> Iterator[MeasuredPasses]:
    """Yield layers; of tensor-parallel ranks only those without, whose passes wait for none."""
    keys = ("model", "device", "batch", "tensor_parallel")
    for (model, name, batch, ranks), times_s in by_subject(rows, *keys).items():
        if ranks > 1:
            continue
        hidden, heads, is_tf32 = _MODELS[model]
        device = devices()[name]
        forward = _layer(batch, hidden, heads, is_opt=model.startswith("OPT"))
        square = forward[_MASKED].outputs[0]
        copies = [Operator("clone", (square,), (square,))] * _COPIES_OF_SLICES
        works = [work_of(each) for each in (*forward, *backward_of(forward), *copies)]
        if is_tf32 and "tf32" in device.peak:
            works = [in_tf32(work) for work in works]
        us = 1e6 * (times_s["forward_s"] + times_s["backward_s"])
        family = model.partition("-")[0]
        counted = tuple((work, 1.0) for work in works)
        yield MeasuredPasses(
            "sailor", model, family, "train", batch, _TOKENS, device, counted, us, {}
        )


def _layer(batch: int, hidden: int, heads: int, *, is_opt: bool) -> list[Operator]:
    """Return operators of a forward pass; layers of OPT have ReLU, and no dropout."""
    tokens, all_heads, size = batch * _TOKENS, batch * heads, hidden // heads
    rows: Shape = (tokens, hidden)
    wide: Shape = (tokens, 4 * hidden)
    square: Shape = (all_heads, _TOKENS, _TOKENS)
    normalized = call("native_layer_norm", [rows, (hidden,), (hidden,)], [rows])
    added = call("add", [rows, rows], [rows])
    of_heads: Shape = (all_heads, _TOKENS, size)
    attention = [
        call("mm", [rows, (hidden, 3 * hidden)], [(tokens, 3 * hidden)]),
        call("add", [(tokens, 3 * hidden), (3 * hidden,)], [(tokens, 3 * hidden)]),
        call("bmm", [of_heads, (all_heads, size, _TOKENS)], [square]),
        call("masked_fill", [square], [square]),
        call("_softmax", [square], [square]),
        call("bmm", [square, of_heads], [of_heads]),
        call("clone", [rows], [rows]),
        call("mm", [rows, (hidden, hidden)], [rows]),
    ]
    between = [
        call("mm", [rows, (hidden, 4 * hidden)], [wide]),
        call("relu" if is_opt else "gelu", [wide], [wide]),
        call("mm", [wide, (4 * hidden, hidden)], [rows]),
    ]
    dropped = [] if is_opt else dropout(rows)
    return [normalized, *attention, *dropped, added, normalized, *between, *dropped, added]
