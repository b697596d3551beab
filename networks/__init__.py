"""Deep neural networks by name, built for the framework that trains them.

Importing this package, and asking for names, loads no framework.
"""

from networks.catalogue import UnknownNetwork, check, minimum_image_size, names
from networks.pytorch_training import build_pytorch
from networks.tensorflow_training import build_tensorflow, synthetic_batch, training_loss

__all__ = [
    "UnknownNetwork",
    "build_pytorch",
    "build_tensorflow",
    "check",
    "minimum_image_size",
    "names",
    "synthetic_batch",
    "training_loss",
]
