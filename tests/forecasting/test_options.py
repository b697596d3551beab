"""What is asked about training: precisions of weights, and adapters beside them."""

from typing import Any

import pytest

from forecasting.options import ForecastOptions, read_options
from pipelines.cli.own_workload import profile_command, target_as_trained
from warehouse.records import BadInput

BERT = "hf:bert"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"precision": "bf16,fp16", "lora": 4}, "--precision: give one precision with --lora"),
        ({"precision": "bf16-true", "lora": 4}, "--precision: adapters of --lora are in float32"),
        ({"precision": "FP16-True", "lora": 4}, "give fp16, which frozen weights are in"),
        ({"precision": "tf32-true"}, "--precision: expected bf16-true or fp16-true of weights"),
        ({"precision": "fp16,int8-true"}, "found int8-true"),
        ({"precision": "bf16-true,bf16"}, "--precision: bf16-true is asked about alone"),
        ({"dnn": "hf:bert,hf:gpt2", "lora": 4}, "--dnn: one model at a time is asked about"),
        ({"dnn": "resnet50", "precision": "bf16-true"}, "give --precision bfloat16, which is"),
        ({"lora_targets": "query"}, "--lora-targets: give lora, the rank of adapters, too"),
        ({"compiled": "max-autotune"}, "--compiled: input should be 'default' or 'reduce-overhea"),
        ({"dnn": "a:b", "precision": "fp16-true"}, "return yours in float16, without --precision"),
    ],
)
def test_what_no_weights_can_be_in_is_told_in_a_line(given: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput) as refused:
        options = read_options(ForecastOptions, {"dnn": BERT, **given})
        dnn = str(options.dnn)
        target_as_trained(dnn if ":" in dnn else None, options.of_hugging_face)
    assert told in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "precision", "weights"),
    [
        ({"precision": "BF16-True"}, "bf16", "bfloat16"),
        ({"precision": "fp16-true"}, "fp16", "float16"),
        ({"precision": "BF16", "lora": 4}, "bf16", "bfloat16"),
        ({"precision": "tf32", "lora": 4}, "tf32", None),
        ({"precision": "fp32-true", "lora": 4}, "fp32", "float32"),
        ({"precision": "bf16"}, "bf16", None),
    ],
)
def test_weights_are_in_the_precision_that_is_asked_for(
    given: dict[str, Any], precision: str, weights: str | None
) -> None:
    options = read_options(ForecastOptions, {"dnn": BERT, **given})
    assert options.training["precision"] == precision
    assert options.of_hugging_face.get("weights") == weights


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"precision": "bf16-true"}, "--precision bfloat16-true"),
        ({"precision": "bf16", "lora": 4}, "--lora 4 --worker gpu.l4 --batch-size 8 --precision b"),
    ],
)
def test_the_command_that_measures_a_model_asks_for_the_same_weights(
    given: dict[str, Any], words: str
) -> None:
    options = read_options(ForecastOptions, {"dnn": BERT, **given})
    target = target_as_trained(BERT, options.of_hugging_face)
    command = profile_command(str(target), "gpu.l4", 8, {"precision": "bfloat16"})
    assert words in command and command.count("--precision") == 1
