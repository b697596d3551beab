"""Networks of blocks with batch normalization as PyTorch modules: ResNet, ShuffleNet, MobileNet."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

_MOBILENET = (
    *((32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2)),
    *((512, 512, 1),) * 5,
    *((512, 1024, 2), (1024, 1024, 1)),
)
"""Channels before and after, and stride, of each separable convolution."""


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
        both = torch.stack([self.other(left), self.body(right)], dim=2)
        return both.flatten(1, 2)


def shufflenet_v2(widths: Sequence[int], num_classes: int) -> nn.Module:
    """Ma et al., ECCV 2018; `widths`: channels of the three stages and of the last convolution."""
    layers = [*_normalized(3, 24, 3, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)]
    *stages, last = widths
    for units, (channels, outputs) in zip((4, 8, 4), pairwise((24, *stages)), strict=True):
        layers.append(Shuffle(channels, outputs, 2))
        layers += [Shuffle(outputs, outputs, 1) for _ in range(units - 1)]
    layers += [*_normalized(stages[-1], last, 1), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, *_classified(last, num_classes))


def mobilenet(num_classes: int) -> nn.Module:
    """Howard et al., arXiv 1704.04861."""
    layers = [*_normalized(3, 32, 3, 2), nn.ReLU(inplace=True)]
    for channels, outputs, stride in _MOBILENET:
        layers += [
            *_normalized(channels, channels, 3, stride, groups=channels),
            nn.ReLU(inplace=True),
            *_normalized(channels, outputs, 1),
            nn.ReLU(inplace=True),
        ]
    return nn.Sequential(*layers, *_classified(1024, num_classes))


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
