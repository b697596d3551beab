"""One name for each kind of operation, whatever library computes it; loads no framework."""

import re

_LIBRARY = re.compile(r"^_Mkl(?:Native)?(?=[A-Z])")
_FUSED = ("FusedConv2D", "FusedMatMul", "FusedBatchNormEx", "FusedDepthwiseConv2dNative")


def canonical(operation_type: str) -> str:
    """Return the type that an operation has in the graph that the user wrote.

    oneDNN's rewriting of a TensorFlow graph prefixes types (`_MklNativeConv2D` is `Conv2D`).
    Operations that Grappler fused from several keep the name of the fusion (`_FusedConv2D`): one
    takes the time of all of them. PyTorch's types (`aten::conv2d`) stay as they are.
    """
    name = _LIBRARY.sub("", operation_type)
    return f"_{name}" if name in _FUSED else name
