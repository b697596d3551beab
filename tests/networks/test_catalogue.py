import inspect
import subprocess
import sys

import pytest

import networks
from networks.catalogue import APPLICATIONS


def test_names_load_no_framework() -> None:
    program = (
        "import sys, networks; networks.check('resnet50'); networks.names();"
        "sys.exit(bool({'tensorflow', 'tf_keras', 'keras', 'torch'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


def test_every_keras_application_is_listed() -> None:
    import tf_keras

    offered = {name for name, _ in inspect.getmembers(tf_keras.applications, inspect.isfunction)}
    assert set(APPLICATIONS.values()) == offered
    assert all(
        name == name.lower() and name.replace("_", "") == application.lower()
        for name, application in APPLICATIONS.items()
    )


def test_names_are_sorted_and_hold_the_plain_networks_too() -> None:
    found = networks.names()
    assert list(found) == sorted(found)
    assert {
        "softmax_regression",
        "small_cnn",
        "alexnet",
        "vgg11",
        "googlenet",
        "squeezenet",
        "cuda_convnet",
        "inception_v4",
        "resnet200_v2",
        *("vit_tiny", "vit_small", "row_lstm", "stacked_lstm"),
        *APPLICATIONS,
    } == set(found)


def test_a_framework_without_networks_is_refused() -> None:
    with pytest.raises(ValueError, match="'caffe': use 'tensorflow'"):
        networks.names("caffe")


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
    assert "`stepcast networks` lists all" in message
    assert "\n" not in message


def test_a_name_like_no_other_is_answered_without_guesses() -> None:
    with pytest.raises(networks.UnknownNetwork) as caught:
        networks.check("zzzz")
    assert "closest" not in str(caught.value)


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
