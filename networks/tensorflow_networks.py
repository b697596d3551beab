"""Networks in plain TensorFlow and of `tf_keras.applications`: CNNs, recurrent, transformers.

Each builder takes float32 images [batch, side, side, channels] and returns logits
[batch, num_classes]; dropout is active.
"""

import inspect
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

import tensorflow.compat.v1 as tf1
import tf_keras
from tf_keras.src.applications import resnet
from tf_keras.src.engine import base_layer_utils

from networks.tensorflow_layers import (
    conv,
    dense,
    dropout,
    layer_norm,
    linear,
    local_response_norm,
    lstm,
    max_pool,
)

if TYPE_CHECKING:
    from tensorflow import Tensor


_POOL = 0
_VGG11_FILTERS = (64, _POOL, 128, _POOL, 256, 256, _POOL, 512, 512, _POOL, 512, 512, _POOL)


def softmax_regression(images: "Tensor", num_classes: int) -> "Tensor":
    """One dense layer on all pixels: next to nothing to compute, one tensor to send.

    At 160 px and 10 classes: 768,010 parameters (3.1 MB).
    """
    return dense("logits", images, num_classes, relu=False)


def small_cnn(images: "Tensor", num_classes: int) -> "Tensor":
    """Three convolutions and two dense layers; the first dense layer holds most parameters.

    At 32 px: 1.39 M parameters (5.6 MB), 94 % of them in that layer, which grows with the
    number of pixels.
    """
    layer = conv("conv1", images, 64, 3)
    layer = conv("conv2", layer, 64, 3)
    layer = max_pool(layer, 2)
    layer = conv("conv3", layer, 64, 3)
    layer = max_pool(layer, 2)
    layer = dense("dense", layer, 320)
    return dense("logits", layer, num_classes, relu=False)


def cuda_convnet(images: "Tensor", num_classes: int) -> "Tensor":
    """Krizhevsky's cuda-convnet for CIFAR-10 as TensorFlow's tutorial trains it.

    1.07 M parameters at 24 px and 10 classes; 83 % of them in the first dense layer, which grows
    with the number of pixels.

    Source: A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009, chapter
    4, and the network of TensorFlow's tutorial on convolutional networks.
    """
    layer = conv("conv1", images, 64, 5)
    layer = local_response_norm(max_pool(layer, 3))
    layer = local_response_norm(conv("conv2", layer, 64, 5))
    layer = max_pool(layer, 3)
    layer = dense("dense3", layer, 384)
    layer = dense("dense4", layer, 192)
    return dense("logits", layer, num_classes, relu=False)


def alexnet(images: "Tensor", num_classes: int) -> "Tensor":
    """AlexNet as one tower: 62.4 M parameters at 224 px and 1000 classes.

    The paper splits layers 2, 4 and 5 over two GPUs, which saves 1.4 M parameters; one tower is
    the same network on one device. The first convolution pads, so that 224 px reach the 6 × 6
    map before the dense layers that the paper states.

    Source: Krizhevsky, Sutskever, Hinton, "ImageNet Classification with Deep Convolutional Neural
    Networks", NIPS 2012, section 3.5.
    """
    layer = local_response_norm(conv("conv1", images, 96, 11, stride=4))
    layer = max_pool(layer, 3, padding="VALID")
    layer = local_response_norm(conv("conv2", layer, 256, 5))
    layer = max_pool(layer, 3, padding="VALID")
    layer = conv("conv3", layer, 384, 3)
    layer = conv("conv4", layer, 384, 3)
    layer = conv("conv5", layer, 256, 3)
    layer = max_pool(layer, 3, padding="VALID")
    return _dense_head(layer, num_classes)


def vgg11(images: "Tensor", num_classes: int) -> "Tensor":
    """VGG-11, configuration A: 132.9 M parameters at 224 px and 1000 classes.

    Source: Simonyan, Zisserman, "Very Deep Convolutional Networks for Large-Scale Image
    Recognition", ICLR 2015, table 1.
    """
    layer = images
    for index, filters in enumerate(_VGG11_FILTERS):
        layer = max_pool(layer, 2) if filters == _POOL else conv(f"conv{index}", layer, filters, 3)
    return _dense_head(layer, num_classes)


def _dense_head(features: "Tensor", num_classes: int) -> "Tensor":
    """The three dense layers of AlexNet, which VGG took over."""
    layer = dropout(dense("dense1", features, 4096), 0.5)
    layer = dropout(dense("dense2", layer, 4096), 0.5)
    return dense("logits", layer, num_classes, relu=False)


# SqueezeNet 1.1 in plain TensorFlow: few parameters, so that small links carry many steps.


_SQUEEZENET_STAGES = (
    ((16, 64), (16, 64)),
    ((32, 128), (32, 128)),
    ((48, 192), (48, 192), (64, 256), (64, 256)),
)
"""Squeeze and expand filters of each fire module; a pooling layer precedes each stage."""


def squeezenet(images: "Tensor", num_classes: int) -> "Tensor":
    """SqueezeNet 1.1: 1.24 M parameters at 1000 classes, whatever the image size.

    Args:
        images: float32 [batch, side, side, channels], side ≥ 32.
        num_classes: Length of a row of logits.

    Returns:
        Logits [batch, num_classes]; dropout is active.

    Source: Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters",
    arXiv 1602.07360, section 3, with the smaller first layer and earlier pooling of the authors'
    later version 1.1.
    """
    layer = conv("conv1", images, 64, 3, stride=2)
    number = 2
    for stage in _SQUEEZENET_STAGES:
        layer = max_pool(layer, 3)
        for squeeze, expand in stage:
            layer = _fire(f"fire{number}", layer, squeeze, expand)
            number += 1
    classes = conv("conv10", dropout(layer, 0.5), num_classes, 1)
    return tf1.reduce_mean(classes, axis=(1, 2), name="average_pool")


def _fire(name: str, inputs: "Tensor", squeeze: int, expand: int) -> "Tensor":
    with tf1.variable_scope(name):
        squeezed = conv("squeeze", inputs, squeeze, 1)
        wide = conv("expand3", squeezed, expand, 3)
        return tf1.concat((conv("expand1", squeezed, expand, 1), wide), axis=-1)


# Recurrent networks in plain TensorFlow: they read an image row by row, as a sequence.
#
# Rows are unrolled, so that a step has the same operations whatever it sees.


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


# GoogLeNet in plain TensorFlow, without the auxiliary classifiers.


_SMALL_IMAGE = 112


class _Inception(NamedTuple):
    """Filters of one module, in the order of the paper's table 1."""

    direct: int
    reduce3: int
    conv3: int
    reduce5: int
    conv5: int
    pool: int


_GOOGLENET_STAGES: tuple[dict[str, _Inception], ...] = (
    {"3a": _Inception(64, 96, 128, 16, 32, 32), "3b": _Inception(128, 128, 192, 32, 96, 64)},
    {
        "4a": _Inception(192, 96, 208, 16, 48, 64),
        "4b": _Inception(160, 112, 224, 24, 64, 64),
        "4c": _Inception(128, 128, 256, 24, 64, 64),
        "4d": _Inception(112, 144, 288, 32, 64, 64),
        "4e": _Inception(256, 160, 320, 32, 128, 128),
    },
    {"5a": _Inception(256, 160, 320, 32, 128, 128), "5b": _Inception(384, 192, 384, 48, 128, 128)},
)


def googlenet(images: "Tensor", num_classes: int) -> "Tensor":
    """Inception v1: 7.0 M parameters at 1000 classes, whatever the image size.

    The stem halves the image three times. Below 112 px its first convolution keeps the
    resolution instead, so that the last modules still see at least a 2 × 2 map. The paper
    names no constants for local response normalization: AlexNet's are used.

    Args:
        images: float32 [batch, side, side, channels], side ≥ 32.
        num_classes: Length of a row of logits.

    Returns:
        Logits [batch, num_classes]; dropout is active.

    Source: Szegedy et al., "Going Deeper with Convolutions", CVPR 2015, table 1.
    """
    stride = 1 if min(images.shape[1:3].as_list()) < _SMALL_IMAGE else 2
    layer = max_pool(conv("conv1", images, 64, 7, stride=stride), 3)
    layer = conv("conv2_reduce", local_response_norm(layer), 64, 1)
    layer = local_response_norm(conv("conv2", layer, 192, 3))
    for stage in _GOOGLENET_STAGES:
        layer = max_pool(layer, 3)
        for name, filters in stage.items():
            layer = _inception(f"inception_{name}", layer, filters)
    features = tf1.reduce_mean(layer, axis=(1, 2), name="average_pool")
    return dense("logits", dropout(features, 0.4), num_classes, relu=False)


def _inception(name: str, inputs: "Tensor", filters: _Inception) -> "Tensor":
    with tf1.variable_scope(name):
        branches = (
            conv("direct", inputs, filters.direct, 1),
            conv("conv3", conv("reduce3", inputs, filters.reduce3, 1), filters.conv3, 3),
            conv("conv5", conv("reduce5", inputs, filters.reduce5, 1), filters.conv5, 5),
            conv("pool", max_pool(inputs, 3, stride=1), filters.pool, 1),
        )
        return tf1.concat(branches, axis=-1)


# Vision transformers in plain TensorFlow.
#
# Source: Dosovitskiy et al., "An Image is Worth 16x16 Words", ICLR 2021, section 3.1; widths of
# Touvron et al., "Training Data-Efficient Image Transformers", ICML 2021, table 1. Patches have 8
# pixels a side, for images of 64 pixels or so; no dropout.


_PATCH = 8
"""Pixels of a patch's side; what is left of an image is not looked at."""
_BLOCKS = 12


def vit_tiny(images: "Tensor", num_classes: int) -> "Tensor":
    """Twelve blocks, 192 wide, three heads: 5.4 M parameters at 64 px and 10 classes."""
    return _vit(images, num_classes, width=192, heads=3)


def vit_small(images: "Tensor", num_classes: int) -> "Tensor":
    """Twelve blocks, 384 wide, six heads: 21.4 M parameters at 64 px and 10 classes."""
    return _vit(images, num_classes, width=384, heads=6)


def _vit(images: "Tensor", num_classes: int, *, width: int, heads: int) -> "Tensor":
    """Return logits, from the token that stands for the class."""
    tokens = _embedded(images, width)
    for block in range(_BLOCKS):
        with tf1.variable_scope(f"block{block}"):
            tokens += _attention(layer_norm("norm1", tokens), heads)
            tokens += _perceptron(layer_norm("norm2", tokens))
    return dense("logits", layer_norm("norm", tokens)[:, 0], num_classes, relu=False)


def _embedded(images: "Tensor", width: int) -> "Tensor":
    """Return a token for the class and one for each patch, with their places; equation 1."""
    batch, side = images.shape.as_list()[:2]
    used = side - side % _PATCH
    patches = tf1.space_to_depth(images[:, :used, :used], _PATCH)
    count = (used // _PATCH) ** 2
    words = linear("patches", tf1.reshape(patches, (batch, count, patches.shape[-1])), width)
    zeros = tf1.zeros_initializer()
    label = tf1.get_variable("class", (1, 1, width), initializer=zeros)
    places = tf1.get_variable("places", (1, count + 1, width), initializer=zeros)
    return tf1.concat([tf1.tile(label, (batch, 1, 1)), words], axis=1) + places


def _attention(tokens: "Tensor", heads: int) -> "Tensor":
    """Multi-head self-attention on [batch, tokens, width].

    Source: Vaswani et al., "Attention Is All You Need", NIPS 2017, section 3.2.
    """
    batch, count, width = tokens.shape.as_list()
    each = width // heads
    projected = tf1.reshape(linear("qkv", tokens, 3 * width), (batch, count, 3, heads, each))
    queries, keys, values = tf1.unstack(tf1.transpose(projected, (2, 0, 3, 1, 4)))
    scores = tf1.matmul(queries, keys, transpose_b=True) * each**-0.5
    heard = tf1.matmul(tf1.nn.softmax(scores), values)
    joined = tf1.reshape(tf1.transpose(heard, (0, 2, 1, 3)), (batch, count, width))
    return linear("out", joined, width)


def _perceptron(tokens: "Tensor") -> "Tensor":
    width = int(tokens.shape[-1])
    inner = linear("inner", tokens, 4 * width)
    # GELU (Hendrycks, Gimpel 2016), which compat.v1 does not offer.
    active = 0.5 * inner * (1 + tf1.math.erf(inner * 2**-0.5))
    return linear("outer", active, width)


# The networks of `tf_keras.applications` in a TensorFlow 1 graph.


def application(name: str, images: "Tensor", num_classes: int) -> "Tensor":
    """Build a Keras network with random weights, in training mode, in the current graph.

    Updates of the moving averages of batch normalization are added to the graph's collection
    `UPDATE_OPS`; nothing runs them unless the training program does.

    Args:
        name: of `APPLICATIONS`.
        images: float32 [batch, side, side, 3].
        num_classes: Length of a row of logits.

    Returns:
        Logits [batch, num_classes].
    """
    known = inspect.getmembers(tf_keras.applications, inspect.isfunction)
    constructors = {named.lower(): constructor for named, constructor in known}
    return _built(constructors[name.replace("_", "")], images, num_classes)


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
