"""Networks of a library, pytorchcv, by its own names; loads no framework.

Its classifiers end in a pool of the map that is left of an image of 224 pixels. Here the pool takes
the map that there is, so that small images do. The library has more: networks whose dense layers
are of 224 pixels (VGG), that cannot train on a single image (GhostNet, SelecSLS), that its locked
release cannot build beside today's numpy (RegNet), and large ones.
"""

from collections.abc import Mapping
from typing import NamedTuple

SMALLEST = 64
"""Side of images, pixels. Below, batch normalization of a single image has one value to normalize
in some of them, and in others maps that are added or joined differ in size."""


class OfLibrary(NamedTuple):
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
LIBRARY: Mapping[str, OfLibrary] = {
    name: OfLibrary(module, family)
    for module, (family, names) in _MODULES.items()
    for name in names.split()
}
