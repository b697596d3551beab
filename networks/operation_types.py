"""One name for each kind of operation, whatever library computes it; loads no framework."""

import re

_LIBRARY = re.compile(r"^_Mkl(?:Native)?(?=[A-Z])")
_FUSED = ("FusedConv2D", "FusedMatMul", "FusedBatchNormEx", "FusedDepthwiseConv2dNative")
_TEMPORARY = {"Assign": "AddV2", "AssignAdd": "AddV2", "DestroyTemporaryVariable": "Identity"}
"""What Grappler makes of a sum that needs much memory: it writes and adds its terms, one by one,
to a temporary variable, which is then handed on."""


def canonical(operation_type: str) -> str:
    """Return the type that an operation has in the graph that the user wrote.

    oneDNN's rewriting of a TensorFlow graph prefixes types (`_MklNativeConv2D` is `Conv2D`).
    Operations that Grappler fused from several keep the name of the fusion (`_FusedConv2D`): one
    takes the time of all of them. Additions to a temporary variable, which it makes of large sums,
    are additions. PyTorch's types (`aten::conv2d`) stay as they are.
    """
    name = _LIBRARY.sub("", operation_type)
    name = _TEMPORARY.get(name, name)
    return f"_{name}" if name in _FUSED else name
