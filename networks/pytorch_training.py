"""PyTorch networks by name."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from networks.catalogue import LIBRARY, check

if TYPE_CHECKING:
    from torch import nn


def build_pytorch(name: str, image_size: int, num_classes: int = 10) -> "nn.Module":
    """Build a network in training mode, on the CPU, with PyTorch's random weights.

    Args:
        name: One of `names("pytorch")`.
        image_size: Side of the square images of three channels that it will take, pixels.
        num_classes: Length of a row of logits.

    Returns:
        A module from float32 [batch, 3, side, side] to logits, float32 [batch, num_classes].

    Raises:
        UnknownNetwork: no network has that name.
        ValueError: the images are too small for the network.
    """
    check(name, image_size, "pytorch")
    if name in LIBRARY:
        from networks.pytorch_networks import build

        return build(name, num_classes).train()
    from networks import pytorch_networks as classics
    from networks import pytorch_networks as residual
    from networks.pytorch_networks import inception_v3

    builders: Mapping[str, Callable[[], nn.Module]] = {
        "small_cnn": lambda: classics.small_cnn(image_size, num_classes),
        "alexnet": lambda: classics.alexnet(image_size, num_classes),
        "vgg11": lambda: classics.vgg(image_size, num_classes, classics.VGG11),
        "vgg19": lambda: classics.vgg(image_size, num_classes, classics.VGG19),
        "squeezenet": lambda: classics.squeezenet(num_classes),
        "resnet18": lambda: residual.resnet(residual.RESNET18, num_classes),
        "resnet50": lambda: residual.resnet(residual.RESNET50, num_classes),
        "resnext50": lambda: residual.resnet(residual.RESNEXT50, num_classes),
        "shufflenet_v2": lambda: residual.shufflenet_v2((116, 232, 464, 1024), num_classes),
        "shufflenet_v2_x2": lambda: residual.shufflenet_v2((244, 488, 976, 2048), num_classes),
        "mobilenet": lambda: residual.mobilenet(num_classes),
        "inception_v3": lambda: inception_v3(num_classes),
    }
    if name in residual.VITS:
        return residual.ViT(residual.VITS[name], image_size, num_classes).train()
    return builders[name]().train()
