"""Graph mode for every test of the builders; no test opens a connection to a server."""

from collections.abc import Iterator

import pytest


@pytest.fixture
def graph() -> Iterator[object]:
    """A fresh default graph of TensorFlow 1."""
    import tensorflow.compat.v1 as tf1

    tf1.disable_v2_behavior()
    with tf1.Graph().as_default() as fresh:
        tf1.set_random_seed(1)
        yield fresh
