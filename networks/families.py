"""Which networks are variants of one design: a family; loads no framework.

Forecasts of unseen networks are judged by family: a ResNet-34 tells much of a ResNet-50.
"""

import re
from functools import lru_cache

from networks.catalogue import OWN
from networks.library import LIBRARY

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
    for beginning, found in _FAMILIES:
        if name.startswith(beginning):
            return found
    letters = re.match(r"[a-z]+(?:_[a-z]{2,})*", name)
    return letters[0] if letters else name
