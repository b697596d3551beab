"""The PyTorch networks: sizes against the published ones, gradients everywhere."""

import pytest
import torch

import networks
from tests.exhaustive import exhaustive

PUBLISHED = {
    "alexnet": 61_100_840,
    "vgg11": 132_863_336,
    "vgg19": 143_667_240,
    "squeezenet": 1_235_496,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "resnext50": 25_028_904,
    "shufflenet_v2": 2_278_604,
    "shufflenet_v2_x2": 7_393_996,
    "mobilenet": 4_231_976,
    "inception_v3": 23_834_568,
    "vit_t_16": 5_717_416,
    "vit_s_16": 22_050_664,
    "vit_b_16": 86_567_656,
    "vit_b_32": 88_224_232,
    "vit_l_16": 304_326_632,
    "vit_l_32": 306_535_400,
}
"""Trained parameters at 224 px and 1000 classes, as the authors' and PyTorch's own models have."""


def parameters(name: str, image_size: int, num_classes: int = 10) -> int:
    """Count what is trained."""
    # A meta device holds no values, so that large networks cost nothing.
    with torch.device("meta"):
        network = networks.build_pytorch(name, image_size, num_classes)
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(("name", "count"), PUBLISHED.items())
def test_a_network_is_as_large_as_published(name: str, count: int) -> None:
    assert parameters(name, 224, 1000) == count


@pytest.mark.parametrize(
    "name",
    [
        "small_cnn",
        "resnet18",
        *exhaustive("squeezenet", "shufflenet_v2", "mobilenet", "inception_v3"),
    ],
)
def test_a_single_smallest_image_trains_every_parameter(name: str) -> None:
    torch.manual_seed(1)
    side = networks.minimum_image_size(name, "pytorch")
    network = networks.build_pytorch(name, side)
    logits = network(torch.rand(1, 3, side, side))
    assert logits.shape == (1, 10)
    torch.nn.functional.cross_entropy(logits, torch.tensor([3])).backward()
    assert all(
        parameter.grad is not None and parameter.grad.isfinite().all()
        for parameter in network.parameters()
    )
