"""Sequential networks in plain TensorFlow: a small CNN, cuda-convnet, AlexNet, VGG-11.

Each builder takes float32 images [batch, side, side, channels] and returns logits
[batch, num_classes]; dropout is active.
"""

from typing import TYPE_CHECKING

from networks.tensorflow_layers import conv, dense, dropout, local_response_norm, max_pool

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
