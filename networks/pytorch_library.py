"""Networks of pytorchcv with heads for small images."""

from importlib import import_module
from typing import TYPE_CHECKING

from networks.library import LIBRARY

if TYPE_CHECKING:
    from torch import nn


def build(name: str, num_classes: int) -> "nn.Module":
    """Return a network of the library, whose last pool takes the whole map, whatever its side.

    Args:
        name: of `LIBRARY`.
        num_classes: length of a row of logits.
    """
    from torch import nn

    module = import_module(f"pytorchcv.models.{LIBRARY[name].module}")
    network: nn.Module = getattr(module, name)(pretrained=False, num_classes=num_classes)
    # Most pool at the end of their features, fully convolutional ones at the end of their output.
    for part in (network.features, network.output):
        assert isinstance(part, nn.Module)
        if isinstance(getattr(part, "final_pool", None), nn.AvgPool2d):
            part.add_module("final_pool", nn.AdaptiveAvgPool2d(1))
    return network
