"""Plain networks as PyTorch modules: stacks of layers without branches, and SqueezeNet's fires.

Fully connected layers take the map that an image of the given size leaves, so that small images
make small networks; at 224 px and 1000 classes they have as many parameters as the originals.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

VGG11 = (1, 1, 2, 2, 2)
"""Convolutions before each pooling: configuration A."""
VGG19 = (2, 2, 4, 4, 4)
"""Configuration E."""
_VGG_CHANNELS = (64, 128, 256, 512, 512)


def small_cnn(image_size: int, num_classes: int) -> nn.Module:
    """Three convolutions, two dense layers; what the tests train."""
    features = nn.Sequential(
        *_convolution(3, 64, 3, padding=1),
        *_convolution(64, 64, 3, padding=1),
        nn.MaxPool2d(2),
        *_convolution(64, 64, 3, padding=1),
        nn.MaxPool2d(2),
    )
    return nn.Sequential(features, *_dense(features, image_size, (320, num_classes)))


def alexnet(image_size: int, num_classes: int) -> nn.Module:
    """Krizhevsky, arXiv 1404.5997: one tower, no local response normalization."""
    features = nn.Sequential(
        *_convolution(3, 64, 11, stride=4, padding=2),
        nn.MaxPool2d(3, 2),
        *_convolution(64, 192, 5, padding=2),
        nn.MaxPool2d(3, 2),
        *_convolution(192, 384, 3, padding=1),
        *_convolution(384, 256, 3, padding=1),
        *_convolution(256, 256, 3, padding=1),
        nn.MaxPool2d(3, 2),
    )
    dense = _dense(features, image_size, (4096, 4096, num_classes), dropout=0.5)
    return nn.Sequential(features, *dense)


def vgg(image_size: int, num_classes: int, convolutions: Sequence[int]) -> nn.Module:
    """Simonyan and Zisserman, ICLR 2015; `convolutions` before each of the five poolings."""
    layers: list[nn.Module] = []
    channels = 3
    for count, width in zip(convolutions, _VGG_CHANNELS, strict=True):
        for _ in range(count):
            layers += _convolution(channels, width, 3, padding=1)
            channels = width
        layers.append(nn.MaxPool2d(2))
    features = nn.Sequential(*layers)
    dense = _dense(features, image_size, (4096, 4096, num_classes), dropout=0.5)
    return nn.Sequential(features, *dense)


class Fire(nn.Module):
    """A squeezing convolution, and two expanding ones whose outputs are joined."""

    def __init__(self, channels: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Sequential(*_convolution(channels, squeezed, 1))
        self.expand1 = nn.Sequential(*_convolution(squeezed, expanded, 1))
        self.expand3 = nn.Sequential(*_convolution(squeezed, expanded, 3, padding=1))

    def forward(self, images: Tensor) -> Tensor:
        """Return a map of twice `expanded` channels."""
        squeezed = self.squeeze(images)
        return torch.cat([self.expand1(squeezed), self.expand3(squeezed)], dim=1)


def squeezenet(num_classes: int) -> nn.Module:
    """Iandola et al., arXiv 1602.07360, version 1.1."""
    return nn.Sequential(
        *_convolution(3, 64, 3, stride=2),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        Fire(64, 16, 64),
        Fire(128, 16, 64),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        Fire(128, 32, 128),
        Fire(256, 32, 128),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        Fire(256, 48, 192),
        Fire(384, 48, 192),
        Fire(384, 64, 256),
        Fire(512, 64, 256),
        nn.Dropout(0.5),
        *_convolution(512, num_classes, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )


def _convolution(
    channels: int, width: int, kernel: int, *, stride: int = 1, padding: int = 0
) -> list[nn.Module]:
    convolution = nn.Conv2d(channels, width, kernel, stride=stride, padding=padding)
    return [convolution, nn.ReLU(inplace=True)]


def _dense(
    features: nn.Module, image_size: int, widths: Sequence[int], dropout: float = 0.0
) -> list[nn.Module]:
    """Return dense layers behind convolutions; dropout, where wanted, before all but the last."""
    with torch.no_grad():
        values = features(torch.zeros(1, 3, image_size, image_size)).numel()
    *hidden, last = widths
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs, outputs in pairwise((values, *hidden)):
        layers += [nn.Dropout(dropout)] if dropout else []
        layers += [nn.Linear(inputs, outputs), nn.ReLU(inplace=True)]
    return [*layers, nn.Linear(hidden[-1], last)]
