"""Traces of networks whose steps others timed, for `traces.yaml` of `data/public`.

`python -m benchmarks.gpu_traces steps.csv > traces.csv` needs transformers. Networks, batch and
loss of `gpu_h100` are as the README of the measurements has them: cross-entropy of the logits as
float32 over their last dimension, of as many decoder as encoder tokens.
"""

import csv
import json
import sys
from collections.abc import Iterator
from functools import partial
from tempfile import NamedTemporaryFile
from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from networks.gpu_trace import Precision, trace_step
from networks.own_huggingface import from_config
from networks.own_torch import exchange_tensors, network_without_values, without_values

_OF_ANY_SIZE = ("resnet50b", "resnet152b")
"""Those of torchvision, which take images of any size."""
_LIBRARY = {
    **{
        name: name
        for name in (
            *("resnet50", "efficientnet_b0", "mobilenetv2_w1", "densenet121", "resnet18"),
            *("resnet26", "resnet34", "seresnet18", "vgg11", "vgg19", "dla34", "dla60"),
            *("efficientnet_b1", "mnasnet_b1", "mixnet_m", *_OF_ANY_SIZE),
        )
    },
    "regnety_160": "regnety160",
    "mobilenetv2_100": "mobilenetv2_w1",
    "mobilenetv3_large_100": "mobilenetv3_large_w1",
}
"""Networks of pytorchcv by the names that those who timed them use."""
_TRANSFORMERS = {
    "bert_base": "BertForMaskedLM",
    "bert_large": "BertForMaskedLM",
    "gpt2_small": "GPT2LMHeadModel",
    "opt_125m": "OPTForCausalLM",
    "bart_base": "BartForConditionalGeneration",
    "vit_base16": "ViTForImageClassification",
    "beit_base": "BeitForImageClassification",
    "qwen2_05b": "Qwen2ForCausalLM",
    "vit_base_patch16_224": "ViTForImageClassification",
    "vit_small_patch16_224": "ViTForImageClassification",
    "t5_small": "T5ForConditionalGeneration",
    "reformer": "ReformerForMaskedLM",
    "whisper_tiny": "WhisperForAudioClassification",
    "convnext_large": "ConvNextForImageClassification",
    "regnet_y_128gf": "RegNetForImageClassification",
}
_ENCODER_DECODERS = ("bart_base", "t5_small")
_CONFIGS: dict[str, dict[str, Any]] = {
    "bert_large": {
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
    },
    "vit_small_patch16_224": {
        "hidden_size": 384,
        "num_attention_heads": 6,
        "intermediate_size": 1536,
    },
    "qwen2_05b": {
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
    },
    "bart_base": {
        "d_model": 768,
        "encoder_layers": 6,
        "decoder_layers": 6,
        "encoder_ffn_dim": 3072,
        "decoder_ffn_dim": 3072,
        "encoder_attention_heads": 12,
        "decoder_attention_heads": 12,
    },
    # A process makes the numbers of its positions once: what is traced first is no step of a loop.
    "beit_base": {"use_relative_position_bias": True},
    "t5_small": {"attn_implementation": "eager"},
    "reformer": {"num_buckets": 128},
    "whisper_tiny": {"d_model": 384, "encoder_layers": 4, "encoder_ffn_dim": 1536},
    "convnext_large": {
        "depths": [3, 3, 27, 3],
        "hidden_sizes": [192, 384, 768, 1536],
        "drop_path_rate": 0.5,
        "num_labels": 1000,
    },
    "regnet_y_128gf": {
        "depths": [2, 7, 17, 1],
        "hidden_sizes": [528, 1056, 2904, 7392],
        "groups_width": 264,
        "layer_type": "y",
        "num_labels": 1000,
    },
}
_REGNETS: dict[str, tuple[list[int], list[int], int]] = {
    "RegNetX-200MF": ([1, 1, 4, 7], [24, 56, 152, 368], 8),
    "RegNetX-400MF": ([1, 2, 7, 12], [32, 64, 160, 384], 16),
    "RegNetX-600MF": ([1, 3, 5, 7], [48, 96, 240, 528], 24),
    "RegNetX-800MF": ([1, 3, 7, 5], [64, 128, 288, 672], 16),
    "RegNetX-1.6GF": ([2, 4, 10, 2], [72, 168, 408, 912], 24),
    "RegNetX-3.2GF": ([2, 6, 15, 2], [96, 192, 432, 1008], 48),
    "RegNetX-4.0GF": ([2, 5, 14, 2], [80, 240, 560, 1360], 40),
    "RegNetX-6.4GF": ([2, 4, 10, 1], [168, 392, 784, 1624], 56),
    "RegNetX-8.0GF": ([2, 5, 15, 1], [80, 240, 720, 1920], 120),
    "RegNetX-12GF": ([2, 5, 11, 1], [224, 448, 896, 2240], 112),
    "RegNetX-16GF": ([2, 6, 13, 1], [256, 512, 896, 2048], 128),
    "RegNetX-32GF": ([2, 7, 13, 1], [336, 672, 1344, 2520], 168),
}
"""Blocks and channels of stages, channels of a group (Radosavovic et al., CVPR 2020, table 2).
Each has as many parameters as pycls_v100.csv says."""
_LIKE: dict[str, dict[str, Any]] = {
    "megatron": {"attn_implementation": "eager"},
    "mpt": {"resid_pdrop": 0.0, "attn_pdrop": 0.0, "embd_pdrop": 0.0},
}
"""What GPT-2 has otherwise: attention was no kernel in Megatron, and MPT drops nothing out."""
_LANGUAGE_MODELS: dict[str, dict[str, Any]] = {
    "qwen_1_8b": {
        "model_type": "qwen2",
        "architectures": ["Qwen2ForCausalLM"],
        "hidden_size": 2048,
        "intermediate_size": 5504,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "vocab_size": 151936,
        "max_position_embeddings": 8192,
    },
    "qwen_14b": {
        "model_type": "qwen2",
        "architectures": ["Qwen2ForCausalLM"],
        "hidden_size": 5120,
        "intermediate_size": 13696,
        "num_hidden_layers": 40,
        "num_attention_heads": 40,
        "num_key_value_heads": 40,
        "vocab_size": 152064,
        "max_position_embeddings": 8192,
    },
    "internlm_7b": {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "vocab_size": 103168,
        "max_position_embeddings": 2048,
    },
    **{
        name: {
            "model_type": "gpt2",
            "architectures": ["GPT2LMHeadModel"],
            "n_embd": width,
            "n_layer": layers,
            "n_head": heads,
            "vocab_size": vocabulary,
            "n_positions": 2048,
            "activation_function": "gelu",
            **_LIKE[name.partition("_")[0]],
        }
        for name, width, layers, heads, vocabulary in (
            ("megatron_gpt", 1024, 24, 16, 51200),
            ("mpt_125m", 768, 12, 12, 50368),
            ("mpt_350m", 1024, 24, 16, 50368),
            ("mpt_760m", 1536, 24, 12, 50368),
            ("mpt_1b", 2048, 24, 16, 50368),
            ("mpt_3b", 2560, 32, 20, 50368),
            ("mpt_7b", 4096, 32, 32, 50368),
            ("mpt_13b", 5120, 40, 40, 50368),
            ("mpt_30b", 7168, 48, 56, 50368),
            ("mpt_70b", 8192, 80, 64, 50368),
        )
    },
}
"""Configs of models whose fine-tuning or pretraining others timed; how follows their name, as in
`networks.own_huggingface.Target`: `qwen_1_8b?lora=64?weights=bfloat16`. GPT-2 stands for Megatron's
GPT and for MPT, whose positions are slopes of attention (llm-foundry, scripts/train/yamls)."""
_PRECISIONS = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
COLUMNS = (
    *("network", "size", "batch", "precision", "number", "operation", "inputs", "outputs", "view"),
    *("flops", "order", "parameters", "frozen", "calls"),
    *("peak_bytes", "without_gradients_bytes", "activation_bytes"),
)


class _Logits(torch.nn.Module):
    """A network whose logits are float32 rows."""

    def __init__(self, network: str) -> None:
        super().__init__()
        self.is_encoder_decoder = network in _ENCODER_DECODERS
        self.module = _built(network)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        both = {"decoder_input_ids": given} if self.is_encoder_decoder else {}
        out = self.module(given, **both)
        # Whoever measured held the logits until the end of the step.
        self.logits = logits = out if isinstance(out, torch.Tensor) else out.logits
        with torch.autocast("cpu", enabled=False):
            return cast(torch.Tensor, logits).float().view(-1, logits.shape[-1])


def _built(network: str) -> torch.nn.Module:
    if network in _LIBRARY:
        from pytorchcv.model_provider import get_model

        module: Any = get_model(_LIBRARY[network])
        if network in _OF_ANY_SIZE:
            module.features.final_pool = torch.nn.AdaptiveAvgPool2d(1)
        return cast(torch.nn.Module, module.train())
    import transformers

    if network in _REGNETS:
        depths, channels, width = _REGNETS[network]
        config = transformers.RegNetConfig(
            depths=depths, hidden_sizes=channels, groups_width=width, layer_type="x"
        )
        config.num_labels = 1000
        return cast(torch.nn.Module, transformers.RegNetForImageClassification(config).train())
    kind: Any = getattr(transformers, _TRANSFORMERS[network])
    return cast(torch.nn.Module, kind(kind.config_class(**_CONFIGS.get(network, {}))).train())


_Traced = tuple[torch.nn.Module, torch.Tensor, torch.Tensor]
"""A network, its batch and labels, without values."""


def logits_network(network: str, size: int, batch: int, mode: FakeTensorMode) -> _Traced:
    """Return a network, a batch and labels, without values."""
    kind = _TRANSFORMERS.get(network, "")
    sees_images = network in (*_LIBRARY, *_REGNETS) or kind.endswith("Classification")
    with torch.device("meta"):
        module = _Logits(network)
    exchange_tensors(module, partial(without_values, mode=mode))
    with mode:
        if not sees_images:
            words = torch.zeros(batch, size, dtype=torch.int64)
            return module, words, torch.zeros(batch * size, dtype=torch.int64)
        labels = torch.zeros(batch, dtype=torch.int64)
        if kind.endswith("AudioClassification"):
            return module, torch.zeros(batch, 80, size), labels
        return module, torch.zeros(batch, 3, size, size), labels


def _language_model(network: str, size: int, batch: int, mode: FakeTensorMode) -> _Traced:
    name, _, how = network.partition("?")
    with NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(_LANGUAGE_MODELS[name], file)
        file.flush()
        target = f"hf:{file.name}?sequence_length={size}?{how}".rstrip("?")
        with torch.device("meta"):
            model, by_name = from_config(target, batch, "")
    (ids,) = by_name.values()
    with mode:
        module = network_without_values(model, (ids,), {}, mode)
        return module, module.draw(batch), torch.zeros(batch, dtype=torch.int64)


def rows(network: str, size: int, batch: int, precision: str) -> Iterator[dict[str, object]]:
    """Yield a row for each operator of a step, or of inference, and one for its order."""
    network_of = (
        _language_model if network.partition("?")[0] in _LANGUAGE_MODELS else logits_network
    )
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    module, given, labels = network_of(network, size, batch, mode)
    kind, _, part = precision.partition("-")
    with mode:
        step = trace_step(module.train(not part), given, labels, cast(Precision, _PRECISIONS[kind]))
    if part:
        names = [operator[0] for operator in step["operators"]]
        order = [names[number] for number in step["order"]]
        step["order"] = step["order"][: order.index("_log_softmax")]
    about = {"network": network, "size": size, "batch": batch, "precision": precision}
    for number, (name, inputs, outputs, view, flops, *_) in enumerate(step["operators"]):
        yield {
            **about,
            "number": number,
            "operation": name,
            "inputs": _words(inputs),
            "outputs": _words(outputs),
            "view": int(view),
            "flops": flops,
            "calls": step["order"].count(number),
        }
    yield {
        **about,
        "order": " ".join(map(str, step["order"])),
        "parameters": _words(step["parameters"]),
        "frozen": _words(step["frozen"]),
        **{name: step[name] for name in COLUMNS[-3:]},
    }


def _words(tensors: tuple[tuple[tuple[int, ...], str], ...]) -> str:
    return ";".join(f"{'x'.join(map(str, shape))}:{dtype}" for shape, dtype in tensors)


def main() -> None:
    """Write traces of all steps of a file."""
    with open(sys.argv[1]) as file:
        cases = [
            (row["network"], int(row["size"]), int(row["batch"]), row["precision"])
            for row in csv.DictReader(file)
        ]
    out = csv.DictWriter(sys.stdout, COLUMNS)
    out.writeheader()
    for case in dict.fromkeys(cases):
        out.writerows(rows(*case))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
