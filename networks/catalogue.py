"""Which networks there are, their families and smallest images; loads no framework."""

import re
from collections import OrderedDict
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from networks.own_model import OwnModel

# Which networks are variants of one design: a family; loads no framework.
#
# Forecasts of unseen networks are judged by family: a ResNet-34 tells much of a ResNet-50.


_FAMILIES = (
    ("seresnext", "senet"),
    ("seresnet", "senet"),
    ("senet", "senet"),
    ("resnext", "resnext"),
    ("preresnet", "resnet"),
    ("wrn", "resnet"),
    ("resnet_rs", "resnet"),
    ("resnet", "resnet"),
    ("inception_resnet", "inception"),
    ("googlenet", "inception"),
    ("inception", "inception"),
    ("xception", "inception"),
    ("vgg", "vgg"),
    ("convnext", "convnext"),
    ("densenet", "densenet"),
    ("shufflenet_v2", "shufflenetv2"),
    ("shufflenet", "shufflenet"),
    ("squeezenext", "squeezenext"),
    ("squeezenet", "squeezenet"),
    ("mobilenet_v3", "mobilenetv3"),
    ("mobilenet_v2", "mobilenetv2"),
    ("mobilenet", "mobilenet"),
    ("efficientnet", "efficientnet"),
    ("vit", "vit"),
)
"""Beginnings of names, the first that fits counts."""


@lru_cache
def family(name: str) -> str:
    """Return the family of a network: by how its name begins, else its name up to a digit.

    A model of a user's own is a family of its own.
    """
    if name.startswith(OWN):
        return name
    if name in LIBRARY:
        return LIBRARY[name].family
    for beginning, family_name in _FAMILIES:
        if name.startswith(beginning):
            return family_name
    letters = re.match(r"[a-z]+(?:_[a-z]{2,})*", name)
    return letters[0] if letters else name


APPLICATIONS = frozenset(
    """
    convnext_base convnext_large convnext_small convnext_tiny convnext_xlarge densenet121
    densenet169 densenet201 efficientnet_b0 efficientnet_b1 efficientnet_b2 efficientnet_b3
    efficientnet_b4 efficientnet_b5 efficientnet_b6 efficientnet_b7 efficientnet_v2_b0
    efficientnet_v2_b1 efficientnet_v2_b2 efficientnet_v2_b3 efficientnet_v2_l efficientnet_v2_m
    efficientnet_v2_s inception_resnet_v2 inception_v3 mobilenet mobilenet_v2 mobilenet_v3_large
    mobilenet_v3_small nasnet_large nasnet_mobile regnet_x002 regnet_x004 regnet_x006
    regnet_x008 regnet_x016 regnet_x032 regnet_x040 regnet_x064 regnet_x080 regnet_x120
    regnet_x160 regnet_x320 regnet_y002 regnet_y004 regnet_y006 regnet_y008 regnet_y016
    regnet_y032 regnet_y040 regnet_y064 regnet_y080 regnet_y120 regnet_y160 regnet_y320
    resnet101 resnet101_v2 resnet152 resnet152_v2 resnet50 resnet50_v2 resnet_rs101 resnet_rs152
    resnet_rs200 resnet_rs270 resnet_rs350 resnet_rs420 resnet_rs50 vgg16 vgg19 xception
    """.split()
)
"""Every network of `tf_keras.applications`, by its name there in small letters and with bars."""
_MINIMUM_IMAGE_SIZES: Mapping[str, int] = {
    "softmax_regression": 1,
    "small_cnn": 16,
    "cuda_convnet": 16,
    "alexnet": 64,
    "vgg11": 32,
    "googlenet": 32,
    "squeezenet": 32,
    "resnet200_v2": 32,
    "inception_v4": 75,
    "vit_tiny": 16,
    "vit_small": 16,
    "row_lstm": 8,
    "stacked_lstm": 8,
    **dict.fromkeys(APPLICATIONS, 32),
    "xception": 71,
    "inception_v3": 75,
    "inception_resnet_v2": 75,
}


class LibraryEntry(NamedTuple):
    """Where the library has a network: `pytorchcv.models.<module>`, its function is the name."""

    module: str
    family: str


_MODULES: Mapping[str, tuple[str, str]] = {
    "resnet": ("resnet", "resnet10 resnet12 resnet14 resnet18_wd2 resnet26 resnet34"),
    "preresnet": ("resnet", "preresnet10 preresnet14 preresnet18 preresnet26"),
    "resnext": ("resnext", "resnext14_32x4d resnext26_32x4d"),
    "seresnet": ("senet", "seresnet10 seresnet14 seresnet18 seresnet26"),
    "densenet": ("densenet", "densenet121 densenet169"),
    "mobilenet": ("mobilenet", "mobilenet_w1 mobilenet_w3d4 mobilenet_wd2"),
    "fdmobilenet": ("mobilenet", "fdmobilenet_w1 fdmobilenet_wd2"),
    "mobilenetv2": ("mobilenetv2", "mobilenetv2_w1 mobilenetv2_w3d4 mobilenetv2_wd2"),
    "mobilenetv3": ("mobilenetv3", "mobilenetv3_large_w1 mobilenetv3_small_w1"),
    "shufflenet": ("shufflenet", "shufflenet_g1_w1 shufflenet_g3_w1 shufflenet_g1_wd2"),
    "shufflenetv2": ("shufflenetv2", "shufflenetv2_w1 shufflenetv2_w2 shufflenetv2_wd2"),
    "squeezenet": ("squeezenet", "squeezenet_v1_0 squeezenet_v1_1 squeezeresnet_v1_1"),
    "squeezenext": ("squeezenext", "sqnxt23_w1 sqnxt23_w2 sqnxt23v5_w1"),
    "menet": ("menet", "menet108_8x1_g3 menet228_12x1_g3 menet456_24x1_g3"),
    "igcv3": ("igcv3", "igcv3_w1 igcv3_w3d4 igcv3_wd2"),
    "mnasnet": ("mnasnet", "mnasnet_b1 mnasnet_a1 mnasnet_small"),
    "fbnet": ("fbnet", "fbnet_cb"),
    "efficientnet": ("efficientnet", "efficientnet_b0 efficientnet_b1"),
    "darknet": ("darknet", "darknet_tiny"),
    "dla": ("dla", "dla34 dla46c dla60"),
    "hardnet": ("hardnet", "hardnet39ds hardnet68ds"),
    "vovnet": ("vovnet", "vovnet27s vovnet39"),
    "peleenet": ("peleenet", "peleenet"),
    "diracnetv2": ("diracnet", "diracnet18v2 diracnet34v2"),
    "bagnet": ("bagnet", "bagnet9 bagnet17"),
    "proxylessnas": ("proxylessnas", "proxylessnas_cpu proxylessnas_mobile"),
    "spnasnet": ("spnasnet", "spnasnet"),
    "mixnet": ("mixnet", "mixnet_s mixnet_m"),
    "condensenet": ("condensenet", "condensenet74_c4_g4 condensenet74_c8_g8"),
}
"""By module of the library: the family, and networks of it."""


def names(framework: str = "tensorflow") -> tuple[str, ...]:
    """Return the names of the networks that can be built for a framework, sorted.

    Raises:
        ValueError: no network can be built for that framework.
    """
    return tuple(sorted(_sizes(framework)))


LIBRARY: Mapping[str, LibraryEntry] = {
    name: LibraryEntry(module, family)
    for module, (family, names) in _MODULES.items()
    for name in names.split()
}
# Networks of a library, pytorchcv, by its own names; loads no framework.
#
# Its classifiers end in a pool of the map that is left of an image of 224 pixels. Here the pool
# takes the map that there is, so that small images do. The library has more: networks whose dense
# layers are of 224 pixels (VGG), that cannot train on a single image (GhostNet, SelecSLS), that its
# locked release cannot build beside today's numpy (RegNet), and large ones.


SMALLEST = 64
"""Side of images, pixels. Below, batch normalization of a single image has one value to normalize
in some of them, and in others maps that are added or joined differ in size."""
_PYTORCH_MINIMUM_IMAGE_SIZES: Mapping[str, int] = {
    "small_cnn": 16,
    "alexnet": 64,
    "vgg11": 32,
    "vgg19": 32,
    "squeezenet": 32,
    # Below this, batch normalization of a batch of one image has a single value to normalize.
    **dict.fromkeys(
        ("resnet18", "resnet50", "resnext50", "shufflenet_v2", "shufflenet_v2_x2", "mobilenet"), 33
    ),
    "inception_v3": 107,
    **dict.fromkeys(("vit_t_16", "vit_s_16", "vit_b_16", "vit_l_16"), 16),
    **dict.fromkeys(("vit_b_32", "vit_l_32"), 32),
    **dict.fromkeys(LIBRARY, SMALLEST),
}
_SIZES = {"tensorflow": _MINIMUM_IMAGE_SIZES, "pytorch": _PYTORCH_MINIMUM_IMAGE_SIZES}
OWN = "own-"
"""How names of users' models begin; the rest is a hash of the training step."""
OWN_MODELS: "OrderedDict[str, OwnModel]" = OrderedDict()
"""Users' models that this process knows, by name, the latest last."""


class UnknownNetwork(ValueError):
    """No network has the name asked for; the message lists the closest ones."""


def source(name: str) -> tuple[str, str] | None:
    """Return what builds a user's model and the folder that has it; None of a network of ours."""
    known = OWN_MODELS.get(name)
    return None if known is None else known.source


def minimum_image_size(name: str, framework: str = "tensorflow") -> int:
    """Return the side, in pixels, of the smallest square image a network takes.

    Raises:
        UnknownNetwork: no network of that framework has that name.
    """
    sizes = _sizes(framework)
    if (own := OWN_MODELS.get(name)) is not None and own.framework == framework:
        return own.image_size
    if name.startswith(OWN):
        raise UnknownNetwork(
            f"{name} is a model of somebody's own, of which only its name is kept: give "
            "`stepcast predict` the package.module:function that builds it"
        )
    if name not in sizes:
        close = get_close_matches(name.lower(), names(framework))
        hint = f"the closest are {', '.join(close)}; " if close else ""
        raise UnknownNetwork(f"unknown DNN {name!r}: {hint}`stepcast support` lists all")
    return sizes[name]


def check(name: str, image_size: int | None = None, framework: str = "tensorflow") -> None:
    """Refuse a network that does not exist, and images of a size that it does not take.

    Raises:
        UnknownNetwork: no network of that framework has that name.
        ValueError: the image is too small for the network.
    """
    smallest = minimum_image_size(name, framework)
    if name.startswith(OWN) and image_size not in (None, smallest):
        raise ValueError(
            f"{name} was traced with images of {smallest} pixels a side, found {image_size}: leave "
            "out image_size"
        )
    if image_size is not None and image_size < smallest:
        raise ValueError(
            f"DNN {name!r} needs images of at least {smallest} pixels a side, found {image_size}: "
            f"raise image_size to {smallest} or more"
        )


def _sizes(framework: str) -> Mapping[str, int]:
    if framework not in _SIZES:
        raise ValueError(
            f"no network can be built for framework {framework!r}: use 'tensorflow' or 'pytorch'"
        )
    return _SIZES[framework]
