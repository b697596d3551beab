"""Networks as PyTorch modules: stacks, residual blocks, ViT, those of pytorchcv.

Fully connected layers take the map that an image of the given size leaves, so that small images
make small networks; at 224 px and 1000 classes they have as many parameters as the originals.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
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


# Networks of blocks with batch normalization as PyTorch modules: ResNet, ShuffleNet.


@dataclass(frozen=True)
class ResNetShape:
    """Blocks of each stage; bottleneck blocks widen their output four times."""

    blocks: tuple[int, int, int, int]
    bottleneck: bool = False
    groups: int = 1
    width_per_group: int = 64


RESNET18 = ResNetShape((2, 2, 2, 2))
RESNET50 = ResNetShape((3, 4, 6, 3), bottleneck=True)
RESNEXT50 = ResNetShape((3, 4, 6, 3), bottleneck=True, groups=32, width_per_group=4)
"""Xie et al., CVPR 2017: 32 groups of 4 channels in the first stage."""


class Residual(nn.Module):
    """A block whose input is added to its output, projected where their shapes differ."""

    def __init__(self, channels: int, width: int, stride: int, shape: ResNetShape) -> None:
        super().__init__()
        outputs = 4 * width if shape.bottleneck else width
        if shape.bottleneck:
            inner = width * shape.width_per_group // 64 * shape.groups
            body = [
                *_normalized(channels, inner, 1),
                nn.ReLU(inplace=True),
                *_normalized(inner, inner, 3, stride, shape.groups),
                nn.ReLU(inplace=True),
                *_normalized(inner, outputs, 1),
            ]
        else:
            body = [
                *_normalized(channels, width, 3, stride),
                nn.ReLU(inplace=True),
                *_normalized(width, width, 3),
            ]
        self.body = nn.Sequential(*body)
        same = stride == 1 and channels == outputs
        self.shortcut = nn.Sequential(*([] if same else _normalized(channels, outputs, 1, stride)))

    def forward(self, images: Tensor) -> Tensor:
        """Return the sum of block and shortcut, rectified."""
        return torch.relu(self.body(images) + self.shortcut(images))


def resnet(shape: ResNetShape, num_classes: int) -> nn.Module:
    """He et al., CVPR 2016; the stride of a bottleneck is in its 3 × 3 convolution."""
    layers = [*_normalized(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)]
    channels = 64
    for stage, blocks in enumerate(shape.blocks):
        width = 64 * 2**stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            layers.append(Residual(channels, width, stride, shape))
            channels = 4 * width if shape.bottleneck else width
    return nn.Sequential(*layers, *_classified(channels, num_classes))


class Shuffle(nn.Module):
    """ShuffleNet v2's unit: half of the channels pass, or both halves are made where it strides."""

    def __init__(self, channels: int, outputs: int, stride: int) -> None:
        super().__init__()
        half = outputs // 2
        self._strided = stride > 1
        inputs = channels if self._strided else channels // 2
        self.body = nn.Sequential(
            *_normalized(inputs, half, 1),
            nn.ReLU(inplace=True),
            *_normalized(half, half, 3, stride, groups=half),
            *_normalized(half, half, 1),
            nn.ReLU(inplace=True),
        )
        other = [
            *_normalized(channels, channels, 3, stride, groups=channels),
            *_normalized(channels, half, 1),
            nn.ReLU(inplace=True),
        ]
        self.other = nn.Sequential(*(other if self._strided else []))

    def forward(self, images: Tensor) -> Tensor:
        """Return both halves with their channels in turn."""
        left, right = (images, images) if self._strided else images.chunk(2, dim=1)
        stacked = torch.stack([self.other(left), self.body(right)], dim=2)
        return stacked.flatten(1, 2)


def shufflenet_v2(widths: Sequence[int], num_classes: int) -> nn.Module:
    """Ma et al., ECCV 2018; `widths`: channels of the three stages and of the last convolution."""
    layers = [*_normalized(3, 24, 3, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)]
    *stages, last = widths
    for units, (channels, outputs) in zip((4, 8, 4), pairwise((24, *stages)), strict=True):
        layers.append(Shuffle(channels, outputs, 2))
        layers += [Shuffle(outputs, outputs, 1) for _ in range(units - 1)]
    layers += [*_normalized(stages[-1], last, 1), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, *_classified(last, num_classes))


def _normalized(
    channels: int, width: int, kernel: int, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    padding = kernel // 2
    convolution = nn.Conv2d(
        channels, width, kernel, stride=stride, padding=padding, groups=groups, bias=False
    )
    return [convolution, nn.BatchNorm2d(width)]


def _classified(channels: int, num_classes: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, num_classes)]


# Vision transformers as PyTorch modules.


@dataclass(frozen=True)
class ViTShape:
    """Blocks, their width and heads, and pixels of a patch's side."""

    blocks: int
    width: int
    heads: int
    patch: int


VITS = {
    "vit_t_16": ViTShape(12, 192, 3, 16),
    "vit_s_16": ViTShape(12, 384, 6, 16),
    "vit_b_16": ViTShape(12, 768, 12, 16),
    "vit_b_32": ViTShape(12, 768, 12, 32),
    "vit_l_16": ViTShape(24, 1024, 16, 16),
    "vit_l_32": ViTShape(24, 1024, 16, 32),
}
"""Dosovitskiy et al., table 1; the two smallest are those of Touvron et al., ICML 2021, table 1."""


class ViT(nn.Module):
    """Dosovitskiy et al., ICLR 2021, section 3.1, without dropout."""

    def __init__(self, shape: ViTShape, image_size: int, num_classes: int) -> None:
        super().__init__()
        width = shape.width
        places = (image_size // shape.patch) ** 2 + 1
        self.patches = nn.Conv2d(3, width, shape.patch, stride=shape.patch)
        self.label = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, places, width))
        self.blocks = nn.Sequential(
            *(
                nn.TransformerEncoderLayer(
                    width,
                    shape.heads,
                    4 * width,
                    dropout=0.0,
                    activation="gelu",
                    layer_norm_eps=1e-6,
                    batch_first=True,
                    norm_first=True,
                )
                for _ in range(shape.blocks)
            )
        )
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.logits = nn.Linear(width, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits, from the token that stands for the class."""
        words = self.patches(images).flatten(2).transpose(1, 2)
        label = self.label.expand(len(images), -1, -1)
        tokens = torch.cat([label, words], dim=1) + self.places
        logits: Tensor = self.logits(self.norm(self.blocks(tokens))[:, 0])
        return logits


# Networks of pytorchcv with heads for small images.


def library_network(module: str, name: str, num_classes: int) -> nn.Module:
    """Return a network of the library, whose last pool takes the whole map, whatever its side.

    Args:
        module: of `pytorchcv.models`.
        name: of the function there.
        num_classes: length of a row of logits.
    """
    builder = getattr(import_module(f"pytorchcv.models.{module}"), name)
    network: nn.Module = builder(pretrained=False, num_classes=num_classes)
    # Most pool at the end of their features, fully convolutional ones at the end of their output.
    for part in (network.features, network.output):
        assert isinstance(part, nn.Module)
        if isinstance(getattr(part, "final_pool", None), nn.AvgPool2d):
            part.add_module("final_pool", nn.AdaptiveAvgPool2d(1))
    return network
