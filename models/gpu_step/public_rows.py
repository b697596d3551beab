"""Rows of `data/public` as the history has them, and the operators that they tell of."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from models.gpu_step.operators import causal
from models.system import Tables
from networks.gpu_steps import GpuStep, Operator, Tensor

Fields = Mapping[str, Any]
Shape = tuple[int, ...]
RowsBySet = Mapping[tuple[str, str], list[dict[str, Any]]]
"""Rows by set and mapping: what a subject holds, and `metric` and `value`."""
_SETS = {
    "gpu_h100": "measured for this project",
    "neusight": "sitar-lab/NeuSight",
    "pycls": "facebookresearch/pycls",
    "timm": "huggingface/pytorch-image-models",
    "transformers": "DebarghaG/estimate-train-time",
    "nvidia": "NVIDIA/DeepLearningExamples",
    "sia": "Pollux and Sia artifacts",
    "lambda": "lambdal/lambda-tensorflow-benchmark",
    "mpt": "mosaicml/llm-foundry",
    "nccl_tests_aws": "aws-samples/awsome-distributed-training",
    "efa": "awslabs/awsome-distributed-ai",
    "azure": "Azure/AI-benchmarking-guide",
    "aiconfigurator": "ai-dynamo/aiconfigurator",
    "flagperf": "FlagOpen/FlagPerf",
    "internevo": "InternLM/InternEvo",
    "milabench": "mila-iqia/milabench",
    "qwen": "QwenLM/Qwen",
    "sailor": "eth-easl/sailor",
    "vtrain": "VIA-Research/vTrain",
}
"""How sources of the sets begin."""
_CAUSAL = ("gpt2", "opt", "qwen2")
"""How networks begin whose attention is causal; that of BART's decoder has a mask in traces."""
STEP_KEY = ("network", "size", "batch", "precision")


def rows_by_set(tables: Tables) -> Mapping[tuple[str, str], list[dict[str, Any]]]:
    """Return rows by set and mapping: what a subject holds, and `metric` and `value`.

    Rows that came later follow: a trace that was mended takes the place of the one before.
    """
    sources = dict(tables["source"].select("run_id", "source").iter_rows())
    by_set: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    external = tables["external"].partition_by("run_id", as_dict=True)
    runs = tables["run"].sort("started_at", "run_id").select("run_id", "config")
    for run_id, config in runs.iter_rows():
        source = sources.get(run_id, "")
        name = next((name for name, start in _SETS.items() if source.startswith(start)), None)
        rows = external.get((run_id,))
        if name is None or rows is None:
            continue
        rows = rows.sort("row_number", "metric").drop_nulls("value")
        subjects = rows["subject"].str.json_decode(infer_schema_length=None)
        columns = subjects.struct.unnest().with_columns(rows["metric"], rows["value"])
        by_set[name, str(json.loads(config)["mapping"])] += columns.to_dicts()
    return by_set


def by_subject(rows: Sequence[Fields], *keys: str) -> dict[tuple[Any, ...], dict[str, float]]:
    """Return the metrics of each subject."""
    metrics: dict[tuple[Any, ...], dict[str, float]] = defaultdict(dict)
    for row in rows:
        metrics[tuple(row[key] for key in keys)][row["metric"]] = row["value"]
    return metrics


def traces_of(rows: Sequence[Fields]) -> dict[tuple[Any, ...], GpuStep]:
    operators: dict[tuple[Any, ...], dict[int, Operator]] = defaultdict(dict)
    for row in rows:
        if row["metric"] == "calls":
            given = _typed(row["inputs"])
            made, view = _typed(row["outputs"]), bool(row["view"])
            operator = Operator(row["operation"], given, made, view, row.get("flops"))
            is_masked = row["network"].startswith(_CAUSAL) or any(
                tensor.dtype == "bool" for tensor in given
            )
            if "flops" not in row and is_masked and "dot_product" in row["operation"]:
                operator = causal(operator)
            operators[*(row[key] for key in STEP_KEY),][row["number"]] = operator
    traces = {}
    for row in rows:
        if row["metric"] == "traced_peak_bytes":
            key = tuple(row[name] for name in STEP_KEY)
            by_number, peak_bytes = operators[key], int(row["value"])
            words = row["parameters"]
            # The first that were traced have elements of parameters in float32, and no more.
            is_plain = ":" not in words
            parameters = _typed(
                ";".join(f"{n}:float32" for n in words.split()) if is_plain else words
            )
            of_parameters = sum(tensor.bytes for tensor in parameters)
            traces[key] = GpuStep(
                tuple(by_number[number] for number in range(len(by_number))),
                tuple(map(int, row["order"].split())),
                parameters,
                peak_bytes,
                # Rows do not tell gradients from activations, nor units: it is so much at most.
                without_gradients_bytes=row.get("without_gradients_bytes") or peak_bytes,
                activation_bytes=row.get("activation_bytes") or peak_bytes - of_parameters,
                units=(sum(tensor.numbers for tensor in parameters),),
                frozen=_typed(row.get("frozen")),
            )
    return traces


def _typed(words: str | None) -> tuple[Tensor, ...]:
    """Return tensors of `64x3x224x224:float32;…`."""
    parts = [tensor.partition(":") for tensor in (words or "").split(";") if tensor]
    return tuple(Tensor(shape_of(sides), dtype) for sides, _, dtype in parts)


def shape_of(sides: str) -> Shape:
    return tuple(int(side) for side in sides.split("x") if side)


def call(
    name: str, inputs: Sequence[Shape], outputs: Sequence[Shape], dtype: str = "float32"
) -> Operator:
    return Operator(
        name,
        tuple(Tensor(shape, dtype) for shape in inputs),
        tuple(Tensor(shape, dtype) for shape in outputs),
    )
