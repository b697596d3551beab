from hypothesis import given
from hypothesis import strategies as st

from networks.variables import Placement, place, tic

VGG_11 = {
    "conv0": (3, 64),
    "conv1": (64, 128),
    "conv2": (128, 256),
    "conv3": (256, 256),
    "conv4": (256, 512),
    "conv5": (512, 512),
    "conv6": (512, 512),
    "conv7": (512, 512),
    "fc0": (25088, 4096),
    "fc1": (4096, 4096),
    "fc2": (4096, 1000),
}


def test_the_papers_partition_of_vgg_11() -> None:
    """Fig. 23: 407 MB on one server and 100 MB on the other, and which layer is where."""
    names, sizes_bytes = [], []
    for layer, (inputs, outputs) in VGG_11.items():
        taps = 9 if layer.startswith("conv") else 1
        names += [f"{layer}/weights", f"{layer}/biases"]
        sizes_bytes += [4 * taps * inputs * outputs, 4 * outputs]
    placed = place(sizes_bytes, 2, "greedy")
    held = [
        sum(size for size, on in zip(sizes_bytes, placed, strict=True) if on == server)
        for server in (0, 1)
    ]
    assert [round(size_bytes / 2**20) for size_bytes in held] == [407, 100]
    first = [name for name, server in zip(names, placed, strict=True) if server == 0]
    assert first == [
        "conv0/weights",
        "conv1/biases",
        "conv2/weights",
        "conv3/biases",
        "conv4/weights",
        "conv5/biases",
        "conv6/weights",
        "conv7/biases",
        "fc0/weights",
    ]


@given(st.lists(st.integers(0, 100)), st.integers(1, 5), st.sampled_from(["round_robin", "greedy"]))
def test_every_variable_has_a_server_and_none_is_much_fuller(
    sizes_bytes: list[int], servers: int, placement: Placement
) -> None:
    placed = place(sizes_bytes, servers, placement)
    assert len(placed) == len(sizes_bytes)
    weights = sizes_bytes if placement == "greedy" else [1] * len(sizes_bytes)
    held = [0] * servers
    for weight, server in zip(weights, placed, strict=True):
        held[server] += weight
    assert max(held) - min(held) <= max(weights, default=0)


def test_a_chain_of_layers_receives_them_in_their_order() -> None:
    """Layer k computes when weights 1 to k are there: w3, w2, w1 were asked for; w1 has no rival.

    Computation 3 needs {w1}, 4 needs {w1, w2}, 5 all three: w1 and w2 are urgent at 2, w3 at 3.
    """
    predecessors = [[], [], [], [2], [3, 1], [4, 0]]
    assert tic(predecessors, [0, 1, 2]) == (1, 2, 0)


def test_the_shorter_branch_goes_first() -> None:
    """Left joins a and b (2 transfers), right joins c, d and e (3), then both join (5)."""
    predecessors = [[], [], [], [], [], [0, 1, 2], [3, 4], [5, 6]]
    assert tic(predecessors, [0, 1, 2, 3, 4]) == (3, 4, 0, 1, 2)


@given(st.data())
def test_an_order_is_a_permutation(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    predecessors = [
        data.draw(st.lists(st.integers(0, i - 1), unique=True, max_size=4)) if i else []
        for i in range(count)
    ]
    transfers = data.draw(st.lists(st.integers(0, count - 1), unique=True))
    assert sorted(tic(predecessors, transfers)) == sorted(transfers)
