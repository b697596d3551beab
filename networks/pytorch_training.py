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
    from networks import pytorch_networks as built

    builders: Mapping[str, Callable[[], nn.Module]] = {
        "small_cnn": lambda: built.small_cnn(image_size, num_classes),
        "alexnet": lambda: built.alexnet(image_size, num_classes),
        "vgg11": lambda: built.vgg(image_size, num_classes, built.VGG11),
        "vgg19": lambda: built.vgg(image_size, num_classes, built.VGG19),
        "squeezenet": lambda: built.library_network("squeezenet", "squeezenet_v1_1", num_classes),
        "resnet18": lambda: built.resnet(built.RESNET18, num_classes),
        "resnet50": lambda: built.resnet(built.RESNET50, num_classes),
        "resnext50": lambda: built.resnet(built.RESNEXT50, num_classes),
        "shufflenet_v2": lambda: built.shufflenet_v2((116, 232, 464, 1024), num_classes),
        "shufflenet_v2_x2": lambda: built.shufflenet_v2((244, 488, 976, 2048), num_classes),
        "mobilenet": lambda: built.library_network("mobilenet", "mobilenet_w1", num_classes),
        "inception_v3": lambda: built.library_network("inceptionv3", "inceptionv3", num_classes),
    }
    if name in LIBRARY:
        return built.library_network(LIBRARY[name].module, name, num_classes).train()
    if name in built.VITS:
        return built.ViT(built.VITS[name], image_size, num_classes).train()
    return builders[name]().train()
