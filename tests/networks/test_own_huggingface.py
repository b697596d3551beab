"""Models of Hugging Face by their configs: from files and types, never from the network."""

import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from networks import own_program
from networks.batch_scaling import steps_at
from networks.gpu_steps import GpuStep
from networks.kept_graphs import keep_in
from networks.own_batch import SEQUENCE_LENGTH
from networks.own_huggingface import (
    Target,
    as_trained,
    class_in_words,
    from_config,
    named_configs,
    with_config,
)
from networks.own_model import OwnModel, model_of, own_model
from networks.own_torch import real_bytes
from networks.own_training import own_network
from profilers.nodes.torch_training import TrainingStep
from warehouse.records import TrainingWorkload

HIDDEN, LAYERS, INNER, WORDS, POSITIONS, LABELS = 16, 2, 24, 50, 40, 3
TINY = {
    "model_type": "bert",
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "intermediate_size": INNER,
    "vocab_size": WORDS,
    "max_position_embeddings": POSITIONS,
    "type_vocab_size": 2,
}
CLASSIFIER = {
    **TINY,
    "architectures": ["BertForSequenceClassification"],
    "id2label": {str(label): str(label) for label in range(LABELS)},
}
PARAMETERS = (
    (WORDS + POSITIONS + 2) * HIDDEN
    + 2 * HIDDEN
    + LAYERS * (4 * (HIDDEN + 1) * HIDDEN + (HIDDEN + 1) * INNER + (INNER + 1) * HIDDEN)
    + LAYERS * 4 * HIDDEN
    + (HIDDEN + 1) * HIDDEN
)
"""Of BERT: embeddings and their norm; attention, dense layers and norms of each layer; pooler."""
Write = Callable[[dict[str, Any]], str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Return what writes a config, and returns its target; whoever opens a connection fails."""

    def refused(*_: object) -> None:
        raise AssertionError("nothing may be asked of the network")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "nothing"))

    def written(config: dict[str, Any]) -> str:
        (tmp_path / "config.json").write_text(json.dumps(config))
        return "hf:config.json"

    return written


def fields_of(target: str, folder: Path, *batch_sizes: int, precision: str = "") -> Any:
    """Return what a child process would write, of JSON."""
    precisions = [precision] if precision else []
    request = {"target": target, "batch_sizes": batch_sizes, "gpu_precisions": precisions}
    traced = own_program._traced({**request, "folders": [str(folder)]})  # noqa: SLF001
    return json.loads(json.dumps(traced))


def traced(target: str, folder: Path) -> OwnModel:
    """Return what a child process would trace, in this one."""
    return model_of(target, fields_of(target, folder, 2))


def test_a_config_becomes_a_model_and_a_batch_of_its_words(write: Write, tmp_path: Path) -> None:
    model, batch = from_config(as_trained(write(TINY), head="none"), 6, str(tmp_path))
    assert class_in_words(model) == "BertModel (no head)"
    assert sum(parameter.numel() for parameter in model.parameters()) == PARAMETERS
    assert {name: tensor.shape for name, tensor in batch.items()} == {"input_ids": (6, POSITIONS)}
    assert 0 <= batch["input_ids"].min() and batch["input_ids"].max() < WORDS
    _, shorter = from_config(as_trained("hf:.", sequence_length=7), 2, str(tmp_path))
    assert shorter["input_ids"].shape == (2, 7)
    classifier, _ = from_config(write(CLASSIFIER), 1, str(tmp_path))
    counted = sum(parameter.numel() for parameter in classifier.parameters())
    assert counted == PARAMETERS + (HIDDEN + 1) * LABELS


def test_it_is_traced_and_trained_like_any_model(write: Write, tmp_path: Path) -> None:
    target = as_trained(write(CLASSIFIER), sequence_length=5)
    model = traced(target, tmp_path)
    assert model.graph is not None
    assert model.parameter_count == PARAMETERS + (HIDDEN + 1) * LABELS
    assert model.graph.histogram["layer_norm"] == 1 + 2 * LAYERS
    assert not isinstance(model.steps[2], str)
    network = own_network(target, str(tmp_path))
    out = network(network.draw(3))
    assert out.shape == (3, LABELS)
    torch.nn.functional.cross_entropy(out, torch.zeros(3, dtype=torch.int64)).backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
SEES = SIZES | {"model_type": "vit", "image_size": 32, "patch_size": 8, "num_channels": 1}
TURNS_BY = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}
SPEAKS = SIZES | {"vocab_size": 50, "num_key_value_heads": 1}
TURNS = SPEAKS | {"rope_parameters": TURNS_BY}


@pytest.mark.parametrize(
    ("config", "shapes"),
    [
        (
            {"model_type": "wav2vec2", **SIZES, "num_conv_pos_embedding_groups": 2},
            {"input_values": (2, 160_000)},
        ),
        (
            {"model_type": "whisper", "d_model": 8, "num_mel_bins": 16, "encoder_layers": 1}
            | {"decoder_layers": 1, "encoder_attention_heads": 1, "decoder_attention_heads": 1},
            {"input_features": (2, 16, 3000), "decoder_input_ids": (2, SEQUENCE_LENGTH)},
        ),
        (
            {"model_type": "patchtst", "d_model": 8, "num_attention_heads": 1, "ffn_dim": 8}
            | {"num_input_channels": 3, "context_length": 32, "num_hidden_layers": 1},
            {"past_values": (2, 32, 3)},
        ),
        (
            {"model_type": "videomae", **SIZES, "image_size": 32, "patch_size": 16}
            | {"num_frames": 4, "tubelet_size": 2},
            {"pixel_values": (2, 4, 3, 32, 32)},
        ),
        (
            # 16 patches of an image are words before 128 of the text.
            {"model_type": "llava", "image_token_index": 49, "text_config": SPEAKS}
            | {"vision_config": SIZES | {"image_size": 32, "patch_size": 8}},
            {"input_ids": (2, 16 + SEQUENCE_LENGTH), "pixel_values": (2, 3, 32, 32)},
        ),
        (
            {"model_type": "qwen2_5_vl", "image_token_id": 49, "text_config": TURNS}
            | {"vision_config": SIZES | {"out_hidden_size": 8, "depth": 1, "num_heads": 1}},
            {"input_ids": (2, 64 + SEQUENCE_LENGTH), "image_grid_thw": (2, 3)},
        ),
    ],
    ids=lambda value: value.get("model_type", "") if isinstance(value, dict) else "",
)
def test_sound_series_videos_and_images_with_words_are_made_from_the_config(
    config: dict[str, Any], shapes: dict[str, tuple[int, ...]], write: Write, tmp_path: Path
) -> None:
    target = write(config)
    _, batch = from_config(target, 2, str(tmp_path))
    assert {name: tuple(batch[name].shape) for name in shapes} == shapes
    model = traced(target, tmp_path)
    assert model.graph is not None and model.graph.flops > 0
    assert sum(model.unknown_work.values()) < 0.01


def test_each_word_is_multiplied_by_the_experts_that_are_chosen_for_it(
    write: Write, tmp_path: Path
) -> None:
    """Up, gate and down of two of four experts; whichever they are, rows are as many."""
    words, hidden, inner, experts, chosen = 8, 16, 24, 4, 2
    config = {"model_type": "mixtral", "hidden_size": hidden, "intermediate_size": inner}
    config |= {"num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1}
    config |= {"num_local_experts": experts, "num_experts_per_tok": chosen, "vocab_size": 50}

    def flops(size: int) -> float:
        target = as_trained(write(config | {"intermediate_size": size}), sequence_length=words)
        graph = traced(target, tmp_path).graph
        assert graph is not None
        return graph.flops

    assert flops(2 * inner) - flops(inner) == 2 * words * chosen * 3 * hidden * inner


def test_images_and_two_sides(write: Write, tmp_path: Path) -> None:
    _, batch = from_config(write(SEES), 2, str(tmp_path))
    assert batch["pixel_values"].shape == (2, 1, 32, 32)
    with pytest.raises(ValueError, match="it sees images; leave out --sequence-length"):
        from_config(as_trained(write(SEES), sequence_length=8), 2, str(tmp_path))
    t5 = {"model_type": "t5", "d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2}
    model, batch = from_config(write({**t5, "vocab_size": 30}), 2, str(tmp_path))
    assert batch.keys() == {"input_ids", "decoder_input_ids"}
    assert batch["input_ids"].shape == (2, SEQUENCE_LENGTH)
    assert model(**batch).logits.shape == (2, SEQUENCE_LENGTH, 30)


def test_adapters_alone_are_trained_beside_weights_in_half_precision(
    write: Write, tmp_path: Path
) -> None:
    rank = 4
    target = as_trained(write(TINY), lora=rank, weights="bfloat16", checkpointed=1)
    model, batch = from_config(target, 6, str(tmp_path))
    trained = [each for each in model.parameters() if each.requires_grad]
    assert sum(each.numel() for each in trained) == LAYERS * 2 * 2 * HIDDEN * rank
    assert {each.dtype for each in trained} == {torch.float32}
    frozen = {each.dtype for each in model.parameters() if not each.requires_grad}
    assert frozen == {torch.bfloat16}
    model.train()(**batch).logits.float().sum().backward()
    assert all(each.grad is not None for each in trained)


def test_layers_of_gpt2_are_adapted_by_their_names(write: Write, tmp_path: Path) -> None:
    config = {"model_type": "gpt2", "n_layer": 2, "n_embd": 16, "n_head": 2, "vocab_size": 50}
    sizes = {}
    for targets in (None, "c_attn, c_fc", "mlp.c_fc", "all-linear"):
        target = as_trained(write(config), lora=4, lora_targets=targets)
        model, batch = from_config(target, 2, str(tmp_path))
        model.train()(**batch).logits.sum().backward()
        sizes[targets] = sum(each.numel() for each in model.parameters() if each.requires_grad)
    attention, inner, both_back = 16 + 48, 16 + 64, (16 + 16) + (64 + 16)
    assert sizes == {
        None: 2 * 4 * attention,
        "c_attn, c_fc": 2 * 4 * (attention + inner),
        "mlp.c_fc": 2 * 4 * inner,
        "all-linear": 2 * 4 * (attention + inner + both_back),
    }


@pytest.mark.parametrize(
    ("config", "said", "told"),
    [
        (TINY, {"lora": 4, "lora_targets": "nothing"}, "no layer is called nothing; give --lora-t"),
        (TINY, {"lora": 4, "lora_targets": "query,typo"}, "no layer is called typo; give --lora-t"),
        (TINY, {"sequence_length": POSITIONS + 1}, "expected at most 40"),
        ({"model_type": "dpr"}, {"checkpointed": 1, "head": "none"}, "keeps all of its activ"),
        ({**TINY, "quantization_config": {"quant_method": "bitsandbytes"}}, {}, "(bitsandbytes)"),
    ],
)
def test_what_cannot_be_trained_so_is_refused_before_there_are_values(
    config: dict[str, Any], said: dict[str, Any], told: str, write: Write, tmp_path: Path
) -> None:
    target, made = as_trained(write(config), **said), list[int]()

    def make(batch_size: int) -> Any:
        made.append(batch_size)
        of_config = own_program._beside("own_huggingface").from_config  # noqa: SLF001
        return of_config(target, batch_size, str(tmp_path))

    with pytest.raises(ValueError) as refused:
        own_program.without_values(make, 2, own_program.fake_tensors())
    assert made == [2]
    assert told in str(refused.value) and "\n" not in str(refused.value)


def test_targets_are_read_as_they_are_written() -> None:
    target = as_trained("hf:a?b.json", head="none", sequence_length=7, lora=16, lora_targets="q,v")
    assert target == "hf:a?b.json?head=none?sequence_length=7?lora=16?lora_targets=q,v"
    assert Target.of(target) == Target("a?b.json", "none", "7", "16", "q,v")


PUBLISHED_PARAMETERS = {
    "bert-large": 335_174_458,
    "gpt2-xl": 1_557_611_200,
    "llama-3-70b": 70_553_706_496,
    "llama-3-8b": 8_030_261_248,
    "llama-3.2-1b": 1_235_814_400,
    "mistral-7b": 7_248_023_552,
    "qwen2.5-7b": 7_615_616_512,
    "vit-large": 304_326_632,
}
"""As the pages of these models on huggingface.co count them."""


@pytest.mark.parametrize(("name", "parameters"), PUBLISHED_PARAMETERS.items())
def test_configs_that_come_with_stepcast_have_as_many_parameters_as_is_published(
    name: str, parameters: int, tmp_path: Path
) -> None:
    assert PUBLISHED_PARAMETERS.keys() == named_configs().keys()
    with torch.device("meta"):
        model, _ = from_config(f"hf:{name}", 1, str(tmp_path))
    assert sum(weights.numel() for weights in model.parameters()) == parameters


def test_a_model_of_eight_billion_parameters_needs_no_memory(tmp_path: Path) -> None:
    """LoRA beside seven wide layers of Llama, checkpointed: 16 GB of weights, none here."""
    layers, hidden, inner, words = 7, 8192, 28672, 128256
    config = {
        **{"model_type": "llama", "hidden_size": hidden, "num_hidden_layers": layers},
        **{"num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": inner},
        **{"vocab_size": words, "max_position_embeddings": 8192},
    }
    each = 2 * hidden**2 + 2 * hidden * hidden // 8 + 3 * hidden * inner + 2 * hidden
    numbers = layers * each + 2 * words * hidden + hidden
    (tmp_path / "config.json").write_text(json.dumps(config))
    said = {"lora": 16, "weights": "bfloat16", "checkpointed": 1, "sequence_length": 2048}
    request = {
        "target": as_trained("hf:config.json", **said),
        "batch_sizes": [4],
        "folders": [str(tmp_path)],
        "hidden": [],
        "gpu_precisions": ["bfloat16"],
    }
    # The largest memory that wait4 tells of a child may be that of who started it.
    measured = (
        "import pathlib, runpy, sys; sys.argv = sys.argv[1:]; "
        "runpy.run_path(sys.argv[0])['main'](); "
        "print(pathlib.Path('/proc/self/status').read_text(), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", measured, own_program.__file__, json.dumps(request)],
        capture_output=True,
        text=True,
        check=True,
    )
    answer = json.loads(done.stdout.splitlines()[-1])
    (peak_kib,) = re.findall(r"^VmHWM:\s+(\d+) kB", done.stderr, re.MULTILINE)
    assert "error" not in answer and not answer["weights_bytes"]
    assert 8e9 < answer["frozen_count"] == numbers
    step = GpuStep.of(answer["gpu_steps"]["4 bfloat16"])
    assert sum(each.numbers for each in step.frozen) == numbers
    assert sum(each.numbers for each in step.parameters) == layers * 16 * hidden * (3 + 1 / 8)
    assert int(peak_kib) < 1.5 * 2**20


@pytest.mark.parametrize(
    ("model_type", "head", "trained"),
    [
        ("bert", None, "BertForMaskedLM"),
        ("bert", "causal-lm", "BertLMHeadModel"),
        ("roberta", "text-classification", "RobertaForSequenceClassification"),
        ("gpt2", None, "GPT2LMHeadModel"),
        ("gpt2", "text-generation", "GPT2LMHeadModel"),
        ("gpt2", "none", "GPT2Model (no head)"),
        ("llama", None, "LlamaForCausalLM"),
        ("t5", None, "T5ForConditionalGeneration"),
        ("t5", "none", "T5Model (no head)"),
        ("resnet", None, "ResNetForImageClassification"),
        ("deit", None, "DeiTForImageClassification"),
        ("funnel", "none", "FunnelModel (no head)"),
        ("dpr", None, "DPRQuestionEncoder (no head)"),
    ],
)
def test_a_type_has_the_head_that_it_is_trained_with_or_that_is_asked_for(
    model_type: str, head: str | None, trained: str, tmp_path: Path
) -> None:
    with torch.device("meta"):
        model, _ = from_config(as_trained(f"hf:{model_type}", head=head), 1, str(tmp_path))
    assert class_in_words(model) == trained


def test_a_config_decides_and_a_decoder_reads_from_the_left(write: Write, tmp_path: Path) -> None:
    for config, trained in (
        (CLASSIFIER, "BertForSequenceClassification"),
        (CLASSIFIER | {"architectures": ["BertModel"]}, "BertModel (no head)"),
        (CLASSIFIER | {"architectures": ["OfSomebodyElse"]}, "BertForMaskedLM"),
        (TINY | {"is_decoder": True}, "BertLMHeadModel"),
    ):
        assert class_in_words(from_config(write(config), 1, str(tmp_path))[0]) == trained


def test_the_head_of_a_language_model_is_a_product_of_its_step(
    write: Write, tmp_path: Path
) -> None:
    words, hidden = 8, 16
    target = write({"model_type": "gpt2", "n_layer": 1, "n_embd": hidden, "n_head": 2})
    with_it, without = (
        traced(as_trained(target, head=head, sequence_length=words), tmp_path)
        for head in (None, "none")
    )
    assert with_it.trained_class == "GPT2LMHeadModel"
    assert with_it.graph is not None and without.graph is not None
    assert with_it.graph.flops - without.graph.flops == 2 * words * hidden * 50257
    assert with_it.parameter_count == without.parameter_count  # it is the table of the words
    assert with_it.dnn != without.dnn


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("hf:bert-base-uncased", "nothing is downloaded; name its config.json, or a type of model"),
        ("hf:bert-base-uncased", "with its defaults: hf:bert"),
        ("hf:missing/config.json", "no such file in "),
        ("hf:berd", "with its defaults: hf:bert"),
        ("hf:broken", "expected a config.json of transformers "),
        ("hf:config.json?sequence_length=41", "--sequence-length: expected at most 40, the posit"),
        ("hf:sounds", "no batch is known for input_values ("),
        ("hf:config.json?head=chat", "--head chat: models of type bert have causal-lm, masked-lm,"),
        ("hf:encoder-decoder?head=none", "no model of type encoder-decoder is without a head"),
    ],
)
def test_what_is_no_config_is_told_in_a_line(
    write: Write, tmp_path: Path, target: str, told: str
) -> None:
    write(TINY)
    sounds: dict[str, object] = {
        "model_type": "wav2vec2",
        "conv_dim": [1],
        "conv_kernel": [10**6],
        "conv_stride": [1],
    }
    sounds |= {"num_conv_pos_embedding_groups": 1}
    texts = {"broken": '{"model_type": "nothing"}', "sounds": json.dumps(SIZES | sounds)}
    for name, text in texts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(text)
    with pytest.raises(ValueError) as refused:
        from_config(target, 2, str(tmp_path))
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_a_config_makes_is_kept_until_the_config_changes(
    write: Write, tmp_path: Path, quickly_traced: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    popen = subprocess.Popen

    def noted(command: list[str], **options: Any) -> Any:
        started.append(command)
        return popen(command, **options)

    monkeypatch.setattr(subprocess, "Popen", noted)
    keep_in(tmp_path / "graphs")
    for children, layers in ((1, 2), (2, 1)):
        target = write({**TINY, "num_hidden_layers": layers})
        model = own_model(target, [4], tmp_path)
        assert model == own_model(target, [4], tmp_path)
        assert own_model(target, [2, 7], tmp_path).steps.keys() == {2, 7}
        assert len(started) == children, "other batches follow from those"
        assert not isinstance(model.steps[4], str)
    own_model(target, [1], tmp_path)
    assert len(started) == children + 1, "one alone may be asked for otherwise"


IMAGES = {"model_type": "vit", "num_hidden_layers": 2, "image_size": 32, "patch_size": 8}


@pytest.mark.parametrize(
    ("config", "said", "precision"),
    [
        (CLASSIFIER, {"lora": 2, "checkpointed": 1}, "bfloat16"),
        (IMAGES, {}, "float16"),
        ({"model_type": "t5", "num_layers": 2, "d_model": 64, "d_kv": 16, "num_heads": 4}, {}, ""),
    ],
)
def test_steps_of_other_batches_are_those_that_tracing_finds(
    write: Write, tmp_path: Path, config: dict[str, Any], said: dict[str, Any], precision: str
) -> None:
    target = as_trained(write(config), **said)
    known, true = (
        fields_of(target, tmp_path, *sizes, precision=precision) for sizes in ([8, 2], [5])
    )
    scaled = steps_at(known, [5])
    assert scaled is not None and steps_at(known, [5, 1]) is None
    models = (replace(model_of(target, each), traced={}) for each in (scaled, true))
    assert next(models) == next(models)
    known["steps"]["8"] = {"operations": []}
    assert steps_at(known, [5]) is None, "calls have to be the same"
    assert steps_at(known, [8]) is not None


def test_without_the_library_a_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ValueError, match=r"`pip install transformers`, or install stepcast\[hugg"):
        from_config("hf:bert", 2, str(tmp_path))


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "vit", "num_hidden_layers": 1, "image_size": 32, "patch_size": 8},
        {"model_type": "convnext", "depths": [1, 1, 1, 1], "drop_path_rate": 0.1},
        {"model_type": "poolformer", "depths": [1, 1, 1, 1], "drop_path_rate": 0.1},
    ],
)
def test_images_are_seen_by_models_without_values(
    write: Write, tmp_path: Path, config: dict[str, Any]
) -> None:
    target, mode = write(config), own_program.fake_tensors()
    model, _ = own_program.without_values(
        lambda size: from_config(target, size, str(tmp_path)), 2, mode
    )
    assert real_bytes(model) == 0
    rates = [part.drop_prob for part in model.modules() if hasattr(part, "drop_prob")]
    assert not rates or max(rates) == pytest.approx(0.1)


def test_what_is_in_half_precision_is_trained_without_autocast(
    write: Write, tmp_path: Path
) -> None:
    """PyTorch refuses to unscale gradients in float16. Nodes need no file of the config."""
    target = with_config(as_trained(write(CLASSIFIER), weights="float16"), tmp_path)
    (tmp_path / "config.json").unlink()
    network = own_network(target, str(tmp_path))
    load = TrainingWorkload(
        dnn="own", framework="pytorch", image_size=0, batch_size=3, precision="float16"
    )
    step = TrainingStep(network, load, "cpu")
    dtypes = list[torch.dtype]()
    network.module.get_submodule("classifier").register_forward_hook(
        lambda _, given, out: dtypes.extend((given[0].dtype, out.dtype))
    )
    step.run(network, network.draw(3), torch.zeros(3, dtype=torch.int64))
    assert dtypes == [torch.float16] * 2


@pytest.mark.parametrize("weights", [None, "bfloat16"])
def test_adapters_are_trained_where_passes_are_measured(
    write: Write, tmp_path: Path, weights: str | None
) -> None:
    target = as_trained(write(CLASSIFIER), lora=2, weights=weights, sequence_length=5)
    network = own_network(target, str(tmp_path))
    load = TrainingWorkload(
        dnn="own", framework="pytorch", image_size=0, batch_size=3, precision=weights or "float32"
    )
    step = TrainingStep(network, load, "cpu")
    before = {name: tensor.clone() for name, tensor in network.named_parameters()}
    step.run(network, network.draw(3), torch.zeros(3, dtype=torch.int64))
    moved = {name for name, tensor in network.named_parameters() if (tensor != before[name]).any()}
    assert moved and all("lora_" in name for name in moved)


@pytest.mark.parametrize(
    ("config", "shapes"),
    [
        (
            {
                "model_type": "vibevoice_acoustic_tokenizer_decoder",
                "hidden_size": 12,
                "num_filters": 2,
            },
            {"hidden_states": (2, 12, 7)},
        ),
        (
            {
                **{"model_type": "muse_glimmer_assistant", "hidden_size": 64, "head_dim": 16},
                **{"num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2},
                **{"target_layer_ids": [1, 2, 5], "intermediate_size": 32},
            },
            {"noise_embeds": (2, 7, 64), "context_hidden_states": (2, 7, 3 * 64)},
        ),
    ],
)
def test_what_takes_vectors_for_words_gets_as_wide_ones_as_its_config_says(
    config: dict[str, Any], shapes: dict[str, tuple[int, ...]], write: Write, tmp_path: Path
) -> None:
    _, batch = from_config(as_trained(write(config), sequence_length=7), 2, str(tmp_path))
    assert {name: tuple(each.shape) for name, each in batch.items()} == shapes
