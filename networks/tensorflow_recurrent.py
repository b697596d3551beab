"""Recurrent networks in plain TensorFlow: they read an image row by row, as a sequence.

Rows are unrolled, so that a step has the same operations whatever it sees.
"""

from typing import TYPE_CHECKING

import tensorflow.compat.v1 as tf1

from networks.tensorflow_layers import dense, lstm

if TYPE_CHECKING:
    from tensorflow import Tensor

_UNITS = 512


def row_lstm(images: "Tensor", num_classes: int) -> "Tensor":
    """One LSTM of 512 units: 1.25 M parameters at 32 px and 10 classes."""
    return _read(images, num_classes, layers=1)


def stacked_lstm(images: "Tensor", num_classes: int) -> "Tensor":
    """Two LSTMs of 512 units, one on the other: 3.35 M parameters at 32 px and 10 classes."""
    return _read(images, num_classes, layers=2)


def _read(images: "Tensor", num_classes: int, *, layers: int) -> "Tensor":
    batch, rows, columns, channels = images.shape.as_list()
    sequence = tf1.unstack(tf1.reshape(images, (batch, rows, columns * channels)), axis=1)
    for layer in range(layers):
        sequence = lstm(f"lstm{layer}", sequence, _UNITS)
    return dense("logits", sequence[-1], num_classes, relu=False)
