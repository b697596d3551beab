"""The graph of primitive operations of PyTorch's networks of ours."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from networks.primitives import PrimitiveGraph
from networks.pytorch_training import build_pytorch
from networks.traced import fields_of

_BATCH = 2
"""Batch normalization of a single value is refused by PyTorch."""


def primitive_graph(dnn: str, image_size: int, num_classes: int = 10) -> PrimitiveGraph:
    """Return the graph of a network.

    Raises:
        UnknownNetwork: no network of PyTorch has that name.
        ValueError: the images are too small for the network.
    """
    with FakeTensorMode():
        module = build_pytorch(dnn, image_size, num_classes)
        images = torch.empty(_BATCH, 3, image_size, image_size)
        return PrimitiveGraph.of(fields_of(module, (images,), dnn, image_size, _BATCH).graph)
