"""Scaling as others measured it: what is read, what is forecast, and what stays unseen."""

from dataclasses import replace
from functools import cache, partial
from itertools import pairwise, starmap
from math import log
from statistics import fmean

import numpy as np
import polars as pl
import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel

from models.gpu_step import collectives
from models.gpu_step.collectives import Collectives
from models.gpu_step.measurements import Measurements
from models.gpu_step.public_measurements import read_measurements
from models.gpu_step.scaling import (
    Scaling,
    exchanges_of,
    fit_straggling,
    forecast_s,
    judged_sources,
)
from networks.pytorch_training import build_pytorch
from tests.models.gpu_step.public import PUBLIC
from warehouse.sets import kept_runs, kept_tables

SETS = ("ddp_step_time_sia", "mpt_training_a100", "nccl_tests_aws", "tf_cnn_benchmarks_lambda")


@cache
def measured() -> Measurements:
    kept = [
        kept_tables(PUBLIC / name, run.run_id) for name in SETS for run in kept_runs(PUBLIC / name)
    ]
    names = ("run", "source", "external")
    return read_measurements(
        {name: pl.concat([pl.DataFrame(tables[name]) for tables in kept]) for name in names}
    )


@cache
def known() -> Collectives:
    return collectives.fit(measured().collectives)


def scalings(source: str) -> list[Scaling]:
    return [scaling for scaling in measured().scalings if scaling.source == source]


def test_sources_are_read() -> None:
    timed = measured().collectives
    assert set(timed["cluster"]) == {"aws p4de", "aws p5", "aws p5 on Kubernetes"}
    assert timed["size_bytes"].min() == pytest.approx(4096)
    at_1_gib = timed.filter(pl.col("size_bytes").is_close(2**30)).sort("cluster")
    # In and out of place: 26.2 ms on p4de; 4.6 and 6.4 on two set-ups of p5.
    assert (at_1_gib["seconds"] * 1e3).round(1).to_list() == [26.2, 4.6, 6.4]
    (bert,) = [
        scaling
        for scaling in scalings("ddp_step_time_sia")
        if scaling.network == "bert"
        and scaling.more.ranks == 4
        and scaling.more.nodes == 1
        and scaling.fewest_s == pytest.approx(0.4553, abs=1e-3)
    ]
    assert bert.factor == pytest.approx(1.17, abs=0.01)
    assert sum(bert.sizes_bytes) == pytest.approx(4 * 109.5e6)
    sharded = scalings("mpt_training_a100")
    assert {scaling.kind for scaling in sharded} == {"sharded"}
    assert {scaling.fewest.ranks for scaling in sharded} == {16, 32}
    assert max(scaling.more.ranks for scaling in sharded) == 128
    assert {scaling.more.nodes for scaling in scalings("tf_cnn_benchmarks_lambda")} == {1}


def test_no_placement_is_uneven() -> None:
    for scaling in measured().scalings:
        assert scaling.more.ranks == scaling.more.devices * scaling.more.nodes
        assert scaling.more.ranks > scaling.fewest.ranks


@pytest.mark.parametrize(
    ("source", "most"), [("ddp_step_time_sia", 0.6), ("mpt_training_a100", 1.0)]
)
def test_forecasts_are_nearer_than_linear_scaling(source: str, most: float) -> None:
    """By how much: `stepcast bench gpu` prints it."""
    judged = [
        each for each in judged_sources(measured().scalings, known()) if each[0].source == source
    ]
    mean_error = fmean(abs(error) for _, error in judged)
    linear = fmean(abs(log(scaling.factor)) for scaling, _ in judged)
    assert mean_error < most * linear


def test_a_source_that_is_left_out_has_no_influence_on_its_forecasts() -> None:
    wrong = tuple(
        replace(scaling, more_s=3 * scaling.more_s)
        if scaling.source == "ddp_step_time_sia"
        else scaling
        for scaling in measured().scalings
    )

    def forecasts(given: tuple[Scaling, ...]) -> list[float]:
        """Return logarithms of what is forecast, whatever was measured."""
        judged = judged_sources(given, known())
        return [
            error + log(scaling.more_s)
            for scaling, error in judged
            if scaling.source == "ddp_step_time_sia"
        ]

    assert forecasts(wrong) == pytest.approx(forecasts(measured().scalings), abs=1e-12)


def test_the_fewest_gpus_are_met_exactly() -> None:
    scaling = scalings("mpt_training_a100")[0]
    same = replace(scaling, more=scaling.fewest)
    forecast = forecast_s(same, exchanges_of(same, known()), 0.01)
    assert forecast == pytest.approx(scaling.fewest_s, rel=1e-3)


def test_straggling_is_found_again() -> None:
    true = 0.01
    given = [
        replace(scaling, more_s=forecast_s(scaling, exchanges_of(scaling, known()), true))
        for scaling in scalings("mpt_training_a100")
    ]
    assert fit_straggling(given, known()) == true
    assert fit_straggling([], known()) == 0.0


VGG16 = (3, 64, 64, 128, 128, 256, 256, 256, *[512] * 6)
VGG16_DENSE = (25_088, 4096, 4096, 1000)


@pytest.mark.parametrize(
    ("network", "model"), [("imagenet", "resnet50"), ("bert", "bert"), ("vgg16", "vgg16")]
)
def test_gradients_have_the_sizes_of_the_network_in_its_order(network: str, model: str) -> None:
    """By quarters of the tensors, as ours of that name, and transformers', have them."""
    with torch.device("meta"):
        if model == "bert":
            built: nn.Module = BertModel(BertConfig())
        elif model == "vgg16":
            convolutions = starmap(partial(nn.Conv2d, kernel_size=3), pairwise(VGG16))
            built = nn.Sequential(*convolutions, *starmap(nn.Linear, pairwise(VGG16_DENSE)))
        else:
            built = build_pytorch(model, 224, 1000)
    sizes_bytes = np.array([4.0 * each.numel() for each in built.parameters()])
    scaling = next(each for each in measured().scalings if each.network == network)
    known, true = (
        [part.sum() for part in np.array_split(each, 4)]
        for each in (np.array(scaling.sizes_bytes), sizes_bytes)
    )
    assert known == pytest.approx(true, rel=0.1)
