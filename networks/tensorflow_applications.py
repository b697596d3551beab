"""The networks of `tf_keras.applications` in a TensorFlow 1 graph."""

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import tensorflow.compat.v1 as tf1
import tf_keras
from tf_keras.src.applications import resnet
from tf_keras.src.engine import base_layer_utils

from networks.catalogue import APPLICATIONS

if TYPE_CHECKING:
    from tensorflow import Tensor


def application(name: str, images: "Tensor", num_classes: int) -> "Tensor":
    """Build a Keras network with random weights, in training mode, in the current graph.

    Updates of the moving averages of batch normalization are added to the graph's collection
    `UPDATE_OPS`; nothing runs them unless the training program does.

    Args:
        name: A key of `APPLICATIONS`.
        images: float32 [batch, side, side, 3].
        num_classes: Length of a row of logits.

    Returns:
        Logits [batch, num_classes].
    """
    return _built(getattr(tf_keras.applications, APPLICATIONS[name]), images, num_classes)


def resnet200_v2(images: "Tensor", num_classes: int) -> "Tensor":
    """ResNet-200 v2 of Keras's blocks: 64.7 M parameters at 1000 classes.

    Source: He, Zhang, Ren, Sun, "Identity Mappings in Deep Residual Networks", ECCV 2016, section
    4 and appendix: 3, 24, 36 and 3 blocks.
    """

    def stacks(layer: Any) -> Any:
        layer = resnet.stack2(layer, 64, 3, name="conv2")
        layer = resnet.stack2(layer, 128, 24, name="conv3")
        layer = resnet.stack2(layer, 256, 36, name="conv4")
        return resnet.stack2(layer, 512, 3, stride1=1, name="conv5")

    def model(**options: Any) -> Any:
        return resnet.ResNet(stacks, True, True, "resnet200v2", **options)

    return _built(model, images, num_classes)


def _built(constructor: Callable[..., Any], images: "Tensor", num_classes: int) -> "Tensor":
    with warnings.catch_warnings():
        # Keras would rather have the mode passed to each call, but applications call their layers.
        warnings.filterwarnings("ignore", message=".*learning_phase_scope.*")
        # Keras would evaluate constants in a session of its own, which cannot place a graph of a
        # cluster and would fix the size of the process's thread pool.
        whole_graph = patch.object(base_layer_utils, "_UNSAFE_GRAPH_OP_LAYER_CREATION", True)
        with tf_keras.backend.learning_phase_scope(1), whole_graph:
            model = constructor(
                include_top=True,
                weights=None,
                input_tensor=tf_keras.Input(tensor=images),
                input_shape=tuple(images.shape[1:].as_list()),
                classes=num_classes,
                classifier_activation=None,
            )
            updates = model.updates
    for update in updates:
        tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, update)
    return model.output
