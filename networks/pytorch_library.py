"""Networks of pytorchcv with heads for small images."""

from importlib import import_module
from typing import TYPE_CHECKING

from networks.library import LIBRARY

if TYPE_CHECKING:
    from torch import nn


def build(name: str, image_size: int, num_classes: int) -> "nn.Module":
    """Return a network of the library, whose last pool takes the whole map.

    Args:
        name: of `LIBRARY`.
        image_size: side of its images, pixels.
        num_classes: length of a row of logits.
    """
    from torch import nn

    module = import_module(f"pytorchcv.models.{LIBRARY[name].module}")
    network: nn.Module = getattr(module, name)(
        pretrained=False, in_size=(image_size, image_size), num_classes=num_classes
    )
    features = network.features
    for place in ("final_pool", "final_block"):
        pool = getattr(features, place, None)
        if isinstance(pool, nn.AvgPool2d):
            setattr(features, place, nn.AdaptiveAvgPool2d(1))
    return network
