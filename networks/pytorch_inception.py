"""Inception v3 as a PyTorch module."""

import torch
from torch import Tensor, nn

Kernel = tuple[int, int]


class Joined(nn.Module):
    """Branches of one input whose outputs are joined, channel behind channel."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, images: Tensor) -> Tensor:
        """Return the outputs of all branches."""
        return torch.cat([branch(images) for branch in self.branches], dim=1)


def inception_v3(num_classes: int) -> nn.Module:
    """Szegedy et al., CVPR 2016, section 6 and Figs. 5 to 7, without the auxiliary classifier.

    Every convolution is followed by batch normalization and has no bias of its own.
    """
    return nn.Sequential(
        _convolution(3, 32, (3, 3), stride=2, padded=False),
        _convolution(32, 32, (3, 3), padded=False),
        _convolution(32, 64, (3, 3)),
        nn.MaxPool2d(3, 2),
        _convolution(64, 80, (1, 1)),
        _convolution(80, 192, (3, 3), padded=False),
        nn.MaxPool2d(3, 2),
        _squares(192, 32),
        _squares(256, 64),
        _squares(288, 64),
        _first_reduction(288),
        _crosses(768, 128),
        _crosses(768, 160),
        _crosses(768, 160),
        _crosses(768, 192),
        _second_reduction(768),
        _fans(1280),
        _fans(2048),
        nn.AdaptiveAvgPool2d(1),
        nn.Dropout(0.5),
        nn.Flatten(),
        nn.Linear(2048, num_classes),
    )


def _squares(channels: int, pooled: int) -> nn.Module:
    """Fig. 5: filters of 5 × 5, and two of 3 × 3 in their place."""
    return Joined(
        _convolution(channels, 64, (1, 1)),
        _chain(channels, (48, (1, 1)), (64, (5, 5))),
        _chain(channels, (64, (1, 1)), (96, (3, 3)), (96, (3, 3))),
        nn.Sequential(nn.AvgPool2d(3, 1, padding=1), _convolution(channels, pooled, (1, 1))),
    )


def _first_reduction(channels: int) -> nn.Module:
    twice = _chain(channels, (64, (1, 1)), (96, (3, 3)))
    return Joined(
        _convolution(channels, 384, (3, 3), stride=2, padded=False),
        nn.Sequential(twice, _convolution(96, 96, (3, 3), stride=2, padded=False)),
        nn.MaxPool2d(3, 2),
    )


def _crosses(channels: int, width: int) -> nn.Module:
    """Fig. 6: filters of 7 × 7 as rows and columns."""
    row, column = (1, 7), (7, 1)
    long = ((width, (1, 1)), (width, column), (width, row), (width, column), (192, row))
    return Joined(
        _convolution(channels, 192, (1, 1)),
        _chain(channels, (width, (1, 1)), (width, row), (192, column)),
        _chain(channels, *long),
        nn.Sequential(nn.AvgPool2d(3, 1, padding=1), _convolution(channels, 192, (1, 1))),
    )


def _second_reduction(channels: int) -> nn.Module:
    crossed = _chain(channels, (192, (1, 1)), (192, (1, 7)), (192, (7, 1)))
    return Joined(
        nn.Sequential(
            _convolution(channels, 192, (1, 1)),
            _convolution(192, 320, (3, 3), stride=2, padded=False),
        ),
        nn.Sequential(crossed, _convolution(192, 192, (3, 3), stride=2, padded=False)),
        nn.MaxPool2d(3, 2),
    )


def _fans(channels: int) -> nn.Module:
    """Fig. 7: rows and columns side by side."""
    return Joined(
        _convolution(channels, 320, (1, 1)),
        nn.Sequential(_convolution(channels, 384, (1, 1)), _fan()),
        nn.Sequential(_chain(channels, (448, (1, 1)), (384, (3, 3))), _fan()),
        nn.Sequential(nn.AvgPool2d(3, 1, padding=1), _convolution(channels, 192, (1, 1))),
    )


def _fan() -> nn.Module:
    return Joined(_convolution(384, 384, (1, 3)), _convolution(384, 384, (3, 1)))


def _chain(channels: int, *steps: tuple[int, Kernel]) -> nn.Module:
    """Return convolutions one after the other: channels and kernel of each."""
    widths = [channels, *(width for width, _ in steps)]
    return nn.Sequential(
        *(
            _convolution(inputs, width, kernel)
            for inputs, (width, kernel) in zip(widths, steps, strict=False)
        )
    )


def _convolution(
    channels: int, width: int, kernel: Kernel, *, stride: int = 1, padded: bool = True
) -> nn.Module:
    padding = (kernel[0] // 2, kernel[1] // 2) if padded else (0, 0)
    convolution = nn.Conv2d(channels, width, kernel, stride=stride, padding=padding, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(width, eps=0.001), nn.ReLU(inplace=True))
