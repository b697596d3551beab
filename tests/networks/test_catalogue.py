import inspect
import subprocess
import sys
from importlib import import_module

import pytest
import torch
from torch import nn

import networks
from networks.catalogue import APPLICATIONS, LIBRARY, SMALLEST, family
from networks.extraction import primitive_graphs
from networks.figures import SIDE, Figures, table
from networks.pytorch_networks import library_network


def test_names_load_no_framework() -> None:
    program = (
        "import sys, networks, networks.operation_graph; networks.check('resnet50');"
        "networks.names();"
        "sys.exit(bool({'tensorflow', 'tf_keras', 'keras', 'torch'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


def test_every_keras_application_is_listed() -> None:
    import tf_keras

    offered = inspect.getmembers(tf_keras.applications, inspect.isfunction)
    named = [name.replace("_", "") for name in APPLICATIONS]
    assert sorted(named) == sorted(name.lower() for name, _ in offered)


def test_names_are_sorted_and_hold_the_plain_networks_too() -> None:
    names = networks.names()
    assert list(names) == sorted(names)
    assert set(names) == APPLICATIONS | {
        *("softmax_regression", "small_cnn", "alexnet", "vgg11", "googlenet", "squeezenet"),
        *("cuda_convnet", "inception_v4", "resnet200_v2"),
        *("vit_tiny", "vit_small", "row_lstm", "stacked_lstm"),
    }


@pytest.mark.parametrize(
    ("name", "close"),
    [("resnet_50", "resnet50"), ("ResNet50", "resnet50"), ("mobilnet_v2", "mobilenet_v2")],
)
def test_an_unknown_name_is_answered_with_close_ones(name: str, close: str) -> None:
    with pytest.raises(networks.UnknownNetwork) as caught:
        networks.check(name)
    message = str(caught.value)
    assert repr(name) in message
    assert close in message
    assert "`stepcast support` lists all" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("name", "smallest"), [("small_cnn", 16), ("alexnet", 64), ("inception_v3", 75)]
)
def test_an_image_that_is_too_small_is_refused(name: str, smallest: int) -> None:
    assert networks.minimum_image_size(name) == smallest
    networks.check(name, smallest)
    with pytest.raises(
        ValueError, match=f"at least {smallest} pixels a side, found {smallest - 1}"
    ):
        networks.check(name, smallest - 1)


OWN_SIZES = ["resnet10", "squeezenet_v1_0", "mobilenetv3_small_w1", "condensenet74_c8_g8", "dla46c"]


def parameters(network: nn.Module) -> int:
    """Count what is trained."""
    return sum(parameter.numel() for parameter in network.parameters())


def test_names_are_those_of_the_library_and_none_of_ours() -> None:
    own = set(networks.names("pytorch")) - LIBRARY.keys()
    assert len(own) == 18
    assert set(networks.names("pytorch")) == own | LIBRARY.keys()
    for name, (module, _) in LIBRARY.items():
        assert callable(getattr(import_module(f"pytorchcv.models.{module}"), name))
        assert networks.minimum_image_size(name, "pytorch") == SMALLEST
    # TensorFlow's networks of the same name are of the same family.
    for name in LIBRARY.keys() & APPLICATIONS:
        assert family(name) == LIBRARY[name].family


def test_families_are_designs_and_not_modules() -> None:
    assert family("preresnet14") == family("resnet10") == family("resnet50") == "resnet"
    assert family("fdmobilenet_w1") == family("mobilenet_w1") == family("mobilenet") == "mobilenet"
    assert family("shufflenetv2_w1") == family("shufflenet_v2") != family("shufflenet_g1_w1")
    assert family("mobilenetv2_w1") == family("mobilenet_v2") != family("mobilenet")
    assert family("mobilenetv3_small_w1") == family("mobilenet_v3_small")
    assert family("own-84aa0012") != family("own-84aa0013")
    assert family("seresnet10") != family("resnet10") != family("resnext14_32x4d")


@pytest.mark.parametrize("name", OWN_SIZES)
def test_at_224_pixels_a_network_is_the_librarys_own(name: str) -> None:
    module = import_module(f"pytorchcv.models.{LIBRARY[name].module}")
    with torch.device("meta"):
        own = getattr(module, name)(pretrained=False, num_classes=1000)
        built = library_network(LIBRARY[name].module, name, 1000)
        assert built.eval()(torch.empty(1, 3, 224, 224)).shape == (1, 1000)
    assert parameters(built) == parameters(own)
    changed = [
        path
        for (path, left), (_, right) in zip(own.named_modules(), built.named_modules(), strict=True)
        if type(left) is not type(right)
    ]
    assert all(place.endswith("final_pool") for place in changed)


@pytest.mark.parametrize(
    "name", {LIBRARY[name].module: name for name in reversed(list(LIBRARY))}.values()
)
def test_a_network_of_each_module_takes_small_images(name: str) -> None:
    """A meta device computes shapes alone, of a single image in training mode."""
    with torch.device("meta"):
        network = networks.build_pytorch(name, SMALLEST)
        assert network.training
        assert network(torch.empty(1, 3, SMALLEST, SMALLEST)).shape == (1, 10)
        pools = [module for module in network.modules() if isinstance(module, nn.AdaptiveAvgPool2d)]
    assert pools or family(name) == "efficientnet"


SOME = ["mobilenet_wd2", "resnet10"]


def test_every_network_of_pytorch_is_in_the_table_at_an_image_that_it_takes() -> None:
    assert table().keys() == set(networks.names("pytorch"))
    for name, row in table().items():
        assert row.image_size == max(SIDE, networks.minimum_image_size(name, "pytorch"))
        assert row.flops > row.depthwise_flops >= 0
        assert min(row.activations, row.parameters, row.nodes) > 0


@pytest.mark.exhaustive
def test_the_table_is_what_graphs_say() -> None:
    graphs = primitive_graphs((name, SIDE) for name in SOME)
    for name in SOME:
        assert table()[name] == Figures.of(graphs[name, SIDE]), "python -m networks.figures"
