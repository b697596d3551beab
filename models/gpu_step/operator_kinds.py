"""Which kind an operator of a training step is of, by its name."""

from collections.abc import Mapping
from typing import Literal

Kind = Literal[
    "attention",
    "attention_backward",
    "convolution",
    "convolution_backward",
    "copy",
    "depthwise",
    "depthwise_backward",
    "elementwise",
    "embedding",
    "embedding_backward",
    "fill",
    "matmul",
    "none",
    "normalization",
    "normalization_backward",
    "optimizer",
    "other",
    "pooling",
    "reduction",
    "softmax",
]
"""`none`: views and what runs on the host; `other`: unknown here."""

_ATTENTION = (
    *("_scaled_dot_product_", "_efficient_attention", "_flash_attention", "_cudnn_attention"),
)
"""How names of kernels of attention begin."""
_LIBRARIES = ("native_", "cudnn_")
_NORMS = ("batch_norm", "layer_norm", "group_norm")
_SAME_NAME: Mapping[str, str] = {
    **dict.fromkeys(("_conv_depthwise2d", "cudnn_convolution"), "convolution"),
    **dict.fromkeys(("_softmax", "_safe_softmax"), "softmax"),
    "_softmax_backward_data": "softmax_backward",
    "_log_softmax": "log_softmax",
    "_log_softmax_backward_data": "log_softmax_backward",
    **dict.fromkeys(("_to_copy", "clone", "copy_", "contiguous"), "copy"),
    "relu": "clamp_min",
    "hardtanh": "clamp",
    **dict.fromkeys(("new_zeros", "zeros", "zeros_like", "zero_", "ones", "ones_like"), "fill"),
    **dict.fromkeys(("full", "full_like", "scalar_tensor"), "fill"),
    "max_pool2d_with_indices": "max_pool2d",
    "max_pool2d_with_indices_backward": "max_pool2d_backward",
    "_adaptive_avg_pool2d": "avg_pool2d",
    "_adaptive_avg_pool2d_backward": "avg_pool2d_backward",
    "embedding": "gather",
}
KIND_OF: Mapping[str, Kind] = {
    "attention": "attention",
    "attention_backward": "attention_backward",
    **dict.fromkeys(("addmm", "baddbmm", "bmm", "mm"), "matmul"),
    "copy": "copy",
    "fill": "fill",
    **dict.fromkeys(_NORMS, "normalization"),
    **dict.fromkeys((f"{name}_backward" for name in _NORMS), "normalization_backward"),
    **dict.fromkeys(("max_pool2d", "max_pool2d_backward"), "pooling"),
    **dict.fromkeys(("avg_pool2d", "avg_pool2d_backward"), "pooling"),
    **dict.fromkeys(("softmax", "softmax_backward"), "softmax"),
    **dict.fromkeys(("log_softmax", "log_softmax_backward"), "softmax"),
    **dict.fromkeys(("all", "amax", "any", "mean", "sum", "var_mean"), "reduction"),
    **dict.fromkeys(("cat", "stack"), "elementwise"),
}
ON_HOST = frozenset(
    (
        *("_local_scalar_dense", "detach", "empty", "empty_like", "new_empty", "lift_fresh"),
        *("empty_strided", "new_empty_strided", "_unsafe_view", "view", "set_data"),
        *("_has_compatible_shallow_copy_type", "sym_size", "is_nonzero"),
    )
)


def common_name(name: str) -> str:
    """Return the name that variants of an operator have in common."""
    name = name.removeprefix("aten::")
    if name.startswith(_ATTENTION):
        return "attention_backward" if name.endswith("_backward") else "attention"
    for library in _LIBRARIES:
        bare = name.removeprefix(library)
        if bare.removesuffix("_backward") in _NORMS:
            return bare
    name = _SAME_NAME.get(name, name)
    if name.endswith("_") and not name.startswith("_foreach_"):
        bare = name.removesuffix("_")
        return _SAME_NAME.get(bare, bare)
    return name
