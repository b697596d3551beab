"""Message passing of the graph hypernetwork, compiled: see `models.predictddl.ghn`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.compiled import compiled

Floats = NDArray[np.float32]
Places = NDArray[np.int32]


@compiled
def distances(first: Places, targets: Places, most: int) -> NDArray[np.int16]:
    """Return the length of the shortest path from each node to each other, 0 where there is none.

    Args:
        first: [nodes + 1], where the targets of each node begin.
        targets: [edges], sorted by source.
        most: longer paths are not looked for.
    """
    nodes = len(first) - 1
    lengths = np.zeros((nodes, nodes), np.int16)
    queue = np.empty(nodes, np.int32)
    for source in range(nodes):
        head, tail = 0, 1
        queue[0] = source
        while head < tail:
            node = queue[head]
            head += 1
            length = lengths[source, node] + 1
            if length > most:
                break
            for place in range(first[node], first[node + 1]):
                target = targets[place]
                if lengths[source, target] == 0:
                    lengths[source, target] = length
                    queue[tail] = target
                    tail += 1
    return lengths


@compiled
def _perceptron(state: Any, parameters: Any) -> Any:
    """Return a perceptron of one hidden layer of rectified units."""
    weights, biases, out_weights, out_biases = parameters
    size = len(out_biases)
    outputs = np.empty(size, np.float32)
    hidden = np.empty(len(biases), np.float32)
    for row in range(len(biases)):
        total = biases[row]
        for column in range(len(state)):
            total += weights[row, column] * state[column]
        hidden[row] = max(total, np.float32(0.0))
    for row in range(size):
        total = out_biases[row]
        for column in range(len(hidden)):
            total += out_weights[row, column] * hidden[column]
        outputs[row] = total
    return outputs


@compiled
def _gated(state: Any, message: Any, parameters: Any) -> Any:
    """Return the next state of a gated recurrent unit (Cho et al., EMNLP 2014, eq. 5 to 8).

    Weights are [3 × size, size]: reset, update, candidate.
    """
    of_message, of_state, b_message, b_state = parameters
    size = len(state)
    next_state = np.empty(size, np.float32)
    message_part = np.empty(3 * size, np.float32)
    state_part = np.empty(3 * size, np.float32)
    for row in range(3 * size):
        by_message, by_state = b_message[row], b_state[row]
        for column in range(size):
            by_message += of_message[row, column] * message[column]
            by_state += of_state[row, column] * state[column]
        message_part[row], state_part[row] = by_message, by_state
    for row in range(size):
        reset = np.float32(1.0) / (np.float32(1.0) + np.exp(-(message_part[row] + state_part[row])))
        at = size + row
        update = np.float32(1.0) / (np.float32(1.0) + np.exp(-(message_part[at] + state_part[at])))
        at += size
        candidate = np.tanh(message_part[at] + reset * state_part[at])
        next_state[row] = (np.float32(1.0) - update) * candidate + update * state[row]
    return next_state


@compiled
def traverse(
    states: Floats,
    lengths: NDArray[np.int16],
    passes: int,
    near: tuple[Floats, ...],
    far: tuple[Floats, ...],
    gru: tuple[Floats, ...],
) -> None:
    """Update states [nodes, size] in place: each pass forward, then backward (eq. 4).

    Args:
        states: first features of nodes, in an order in which they can run.
        lengths: of shortest paths, `distances`; 1 is an edge, more a virtual one of weight 1/s.
        passes: T.
        near: the perceptron of edges, each layer's weights and biases.
        far: that of virtual edges.
        gru: the gated recurrent unit: weights of messages and states, their biases.
    """
    nodes, size = states.shape
    messages = np.empty((nodes, size), np.float32)
    messages_far = np.empty((nodes, size), np.float32)
    message = np.empty(size, np.float32)
    for _ in range(passes):
        for backward in range(2):
            for place in range(nodes):
                node = nodes - 1 - place if backward else place
                message[:] = 0
                for other_place in range(place):
                    other = nodes - 1 - other_place if backward else other_place
                    length = lengths[node, other] if backward else lengths[other, node]
                    if length == 1:
                        message += messages[other]
                    elif length > 1:
                        message += messages_far[other] / np.float32(length)
                states[node] = _gated(states[node], message, gru)
                messages[node] = _perceptron(states[node], near)
                messages_far[node] = _perceptron(states[node], far)
