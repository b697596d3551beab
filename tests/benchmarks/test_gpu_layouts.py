"""Public steps of layouts: each on as many GPUs as its source says, of a trace of its network."""

from collections import Counter

from benchmarks.gpu import public_tables
from benchmarks.gpu_layouts import measured_layouts
from models.gpu_step.layout import blocks_of, divided
from models.gpu_step.public_rows import rows_by_set
from tests.models.gpu_step.public import PUBLIC


def test_steps_of_three_sources_are_read() -> None:
    rows = rows_by_set(public_tables(PUBLIC))
    measured = list(measured_layouts(rows))
    assert Counter(each.source for each in measured) == {
        "vtrain": 630,
        "internevo": 32,
        "mpt_training_a100": 50,
    }
    of_gpt = [each for each in measured if each.source == "vtrain"]
    for each, row in zip(of_gpt, rows["vtrain", "iterations"], strict=True):
        assert each.layout.ranks == row["gpus"] == each.links.ranks
        samples = each.layout.replicas * each.layout.micro_batches * row["batch"]
        assert samples == row["global_batch"]
    # GPT of 24 layers of 1,024 has 302 million parameters in them; half of 12 layers is a stage.
    each = next(each for each in of_gpt if (each.layout.stages, each.layers) == (2, 12))
    network = blocks_of(each.trace)
    assert (network.layers, network.is_checkpointed) == (24, True)
    stage = divided(each.trace, each.layout.part, network, 6)
    in_layers = 6 * 12.6e6 / each.layout.tensor
    head = 51.2e3 * 1024 / each.layout.tensor
    numbers = sum(parameter.numbers for parameter in stage.parameters)
    assert abs(numbers / (in_layers + head) - 1) < 0.02
