"""Vision transformers in plain TensorFlow.

Source: Dosovitskiy et al., "An Image is Worth 16x16 Words", ICLR 2021, section 3.1; widths of
Touvron et al., "Training Data-Efficient Image Transformers", ICML 2021, table 1. Patches have 8
pixels a side, for images of 64 pixels or so; no dropout.
"""

from typing import TYPE_CHECKING

import tensorflow.compat.v1 as tf1

from networks.tensorflow_layers import dense, layer_norm, linear

if TYPE_CHECKING:
    from tensorflow import Tensor

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
