"""The table of how large networks are, against graphs of some of them."""

import pytest

import networks
from networks.extraction import primitive_graphs
from networks.figures import SIDE, Figures, figures, table

SOME = ["mobilenet_wd2", "resnet10"]


def test_every_network_of_pytorch_is_in_the_table_at_an_image_that_it_takes() -> None:
    assert table().keys() == set(networks.names("pytorch"))
    for name, found in table().items():
        assert found.image_size == max(SIDE, networks.minimum_image_size(name, "pytorch"))
        assert found.flops > found.depthwise_flops >= 0
        assert min(found.activations, found.parameters, found.nodes) > 0


@pytest.mark.exhaustive
def test_the_table_is_what_graphs_say() -> None:
    graphs = primitive_graphs((name, SIDE) for name in SOME)
    for name in SOME:
        assert table()[name] == Figures.of(graphs[name, SIDE]), "python -m networks.figures"


def test_maps_grow_with_the_area_of_images_and_parameters_do_not() -> None:
    small, large = figures("resnet10", 64), figures("resnet10", 128)
    assert small is not None
    assert large is not None
    assert large.flops == pytest.approx(4 * small.flops)
    assert large.activations == pytest.approx(4 * small.activations)
    assert (large.parameters, large.nodes) == (small.parameters, small.nodes)


def test_of_other_networks_nothing_is_known() -> None:
    assert figures("resnet1", 64) is None
