"""A model of Hugging Face by its config alone: random weights, a head, a batch of its words.

How it is trained is told with it: adapters of low rank (Hu et al., LoRA, ICLR 2022, section 4.1, as
`peft` builds them), activations that are computed again, weights in half precision.

Nothing is asked of the network: a config is a file, a type of model with its defaults, or what the
library's own cache has.

`networks/own_program.py` loads this file where no package of ours may be imported.
"""

import importlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from networks.own_batch import SEQUENCE_LENGTH, NoBatch, batch_of, text_config

PREFIX = "hf:"
_CONFIGS = Path(__file__).with_name("configs")
"""Sizes of well-known models, as their publishers' config.json on huggingface.co has them."""
_MOST_MODULES = 50_000
"""Of a model: no graph that systems read has so many nodes (`networks.primitives.MOST_NODES`)."""
NO_HEAD = "none"
LORA_TARGETS = (
    *("q_proj", "v_proj", "query", "value", "q", "v", "q_lin", "v_lin", "query_proj", "value_proj"),
    *("query_key_value", "c_attn", "qkv_proj", "Wqkv", "qkv"),
)
"""Projections of queries and values, as `peft` adapts them where nobody says which."""
ALL_LINEAR = "all-linear"
_CLASSIFIERS = ("score", "classifier")
"""Heads of sequences, which `all-linear` leaves out as it does output embeddings (as `peft`)."""
_LORA_ALPHA = 2
"""Scale of adapters over their rank; it changes no time."""
_AUTO = "AutoModelFor"
_TRAINED = (
    *("MaskedLM", "CausalLM", "ImageClassification", "ObjectDetection", "SemanticSegmentation"),
    *("UniversalSegmentation", "DepthEstimation", "ImageTextToText", "SequenceClassification"),
    *("TokenClassification", "CTC", "RNNT", "TDT", "SpeechSeq2Seq", "AudioClassification"),
    *("VideoClassification", "TimeSeriesPrediction", "TextToSpectrogram", "MultimodalLM"),
    "PreTraining",
)
"""Heads that a type is trained with, the first that it has; see `_heads_trained`."""


class RefusedConfig(ValueError):
    """What is wrong with a config, or how its model is to be trained, whatever tensors are."""


class Target(NamedTuple):
    """A config and how its model is trained; as text `hf:CONFIG?head=none?lora=16`.

    Attributes:
        config: a config.json, its folder, a type of model such as `bert`, or a model of which a
            config comes with Stepcast, such as `llama-3-8b`.
        head: `none`, a task of the library's pipelines such as `text-generation`, or an Auto class
            such as `causal-lm`; empty: that of the class which the config names, else what models
            of its type are trained with.
        sequence_length: words of a sample; empty: `SEQUENCE_LENGTH`.
        lora: rank of adapters, which alone are trained; empty: all is.
        lora_targets: names of what is adapted, by commas, or `ALL_LINEAR`; empty: `LORA_TARGETS`.
        checkpointed: `1`: activations of layers are computed again in backward.
        weights: type of all weights but adapters; empty: float32.
    """

    config: str
    head: str = ""
    sequence_length: str = ""
    lora: str = ""
    lora_targets: str = ""
    checkpointed: str = ""
    weights: str = ""

    @classmethod
    def of(cls, text: str) -> "Target":
        """Return what a text says; question marks of paths are part of these."""
        rest, said = text.removeprefix(PREFIX), {}
        while (matched := _SAID.fullmatch(rest)) is not None:
            rest, name, said[name] = matched["rest"], matched["name"], matched["value"]
        return cls(rest, **said)

    def __str__(self) -> str:
        """Return it as text."""
        config, *said = self._asdict().items()
        return f"{PREFIX}{config[1]}" + "".join(f"?{name}={value}" for name, value in said if value)


_SAID = re.compile(
    rf"(?P<rest>.*)\?(?P<name>{'|'.join(Target._fields[1:])})=(?P<value>[^?]*)", re.DOTALL
)


def named_configs() -> dict[str, str]:
    """Return the configs that come with Stepcast, by name: what their model is called."""
    return {file.stem: json.loads(file.read_text())["_name"] for file in sorted(_CONFIGS.iterdir())}


def as_trained(target: str, **said: object) -> str:
    """Return a target that also says how its model is trained, by fields of `Target`.

    None says nothing, also of a target that is none of Hugging Face's.
    """
    known = {name: str(value) for name, value in said.items() if value is not None}
    return str(Target.of(target)._replace(**known)) if known else target


def with_config(target: str, folder: Path) -> str:
    """Return a target that has the text of its config's file, for machines that lack the file."""
    asked = Target.of(target)
    file = _config_file(importlib.import_module("transformers"), asked.config, folder)
    return target if file is None else str(asked._replace(config=file.read_text().strip()))


def _file(path: Path) -> Path:
    return path / "config.json" if path.is_dir() else path


def from_config(target: str, batch_size: int, folder: str) -> tuple[Any, dict[str, Any]]:
    """Return a module, and a batch by argument.

    Args:
        target: as `Target` has it.
        batch_size: samples of the batch.
        folder: in which relative paths begin.

    Raises:
        RefusedConfig: there is no such config or head, no batch is known for it, or it cannot be
            trained so; the message says what to do.
    """
    os.environ["HF_HUB_OFFLINE"] = "1"
    asked = Target.of(target)
    name, length = asked.config, int(asked.sequence_length or 0) or None
    try:
        library: Any = importlib.import_module("transformers")
    except ModuleNotFoundError:
        raise RefusedConfig(
            f"{PREFIX}{name}: models of Hugging Face need its library; `pip install transformers`, "
            "or install stepcast[huggingface]"
        ) from None
    library.logging.set_verbosity_error()
    config = _config(library, name, Path(folder))
    if quantized := getattr(config, "quantization_config", None):
        kind = quantized.get("quant_method", "") if isinstance(quantized, dict) else ""
        raise RefusedConfig(
            f"{PREFIX}{name}: its weights are quantized ({kind or 'quantization_config'}): "
            "nobody timed such; leave quantization_config out, for whole weights"
        )
    model_class = _class(library, config, asked.head or None, name)
    dtype = getattr(importlib.import_module("torch"), asked.weights or "float32")
    try:
        with _few_modules():
            model = model_class._from_config(config, dtype=dtype)  # noqa: SLF001
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        # Some models ask for values while they are built: without these they may yet be made.
        kind = RefusedConfig if isinstance(error, RefusedConfig) else ValueError
        raise kind(f"{PREFIX}{name}: its config makes no model: {lines[0]:.200}") from None
    if asked.lora:
        _adapt(model, int(asked.lora), asked.lora_targets, name)
    if asked.checkpointed:
        if not model.supports_gradient_checkpointing:
            raise RefusedConfig(
                f"{PREFIX}{name}: --checkpoint-activations: {type(model).__name__} keeps all of "
                "its activations; use torch.utils.checkpoint in a function of your own"
            )
        enable = getattr(model, "activation_checkpointing_enable", None)
        (enable or model.gradient_checkpointing_enable)({"use_reentrant": False})
    return model, _batch(model, config, batch_size, length, name)


def _adapt(model: Any, rank: int, targets: str, name: str) -> None:
    """Freeze a model but for new adapters beside some of its layers.

    Adapters are in float32, whatever the weights are in; their input is cast to that.

    Raises:
        RefusedConfig: no layer has such a name.
    """
    import torch

    wanted = [target.strip() for target in targets.split(",")] if targets else LORA_TARGETS
    sides = {
        path: (layer.in_features, layer.out_features)
        if isinstance(layer, torch.nn.Linear)
        else tuple(layer.weight.shape)
        for path, layer in model.named_modules()
        if isinstance(layer, torch.nn.Linear) or type(layer).__name__ == "Conv1D"
    }
    output = model.get_output_embeddings() if ALL_LINEAR in wanted else None
    heads = {*_CLASSIFIERS, *(path for path in sides if model.get_submodule(path) is output)}
    named = {
        target: [
            path
            for path in sides
            if f".{path}".endswith(f".{target}") or (target == ALL_LINEAR and path not in heads)
        ]
        for target in wanted
    }
    missing = [target for target, paths in named.items() if not paths]
    if missing and (targets or len(missing) == len(named)):
        names = ", ".join(sorted({path.rpartition(".")[2] for path in sides}))
        raise RefusedConfig(
            f"{PREFIX}{name}: --lora: no layer is called "
            f"{missing[0] if targets else ' or '.join(missing)}; give --lora-targets {ALL_LINEAR}, "
            f"or some of {names}"
        )
    chosen = dict.fromkeys(path for paths in named.values() for path in paths)
    model.requires_grad_(False)
    for path in chosen:
        layer, (inputs, outputs) = model.get_submodule(path), sides[path]
        down, up = torch.nn.Linear(inputs, rank, bias=False), torch.nn.Linear(rank, outputs, False)
        layer.add_module("lora_A", down)
        layer.add_module("lora_B", up)

        def adapt(layer: Any, args: Any, result: Any) -> Any:
            learned = layer.lora_B(layer.lora_A(args[0].to(layer.lora_A.weight.dtype)))
            return (result + learned * _LORA_ALPHA).to(result.dtype)

        layer.register_forward_hook(adapt)


@contextmanager
def _few_modules() -> Iterator[None]:
    """Build no more modules than `_MOST_MODULES`: a config may ask for any number of layers.

    Raises:
        RefusedConfig: there are more.
    """
    from torch.nn.modules.module import register_module_module_registration_hook

    left = iter(range(_MOST_MODULES))

    def count(*_: object) -> None:
        if next(left, None) is None:
            raise RefusedConfig(f"it has more than {_MOST_MODULES:,} modules")

    counting = register_module_module_registration_hook(count)
    try:
        yield
    finally:
        counting.remove()


def class_in_words(model: Any) -> str:
    """Return the class of a model; of one without a head, that it has none."""
    library: Any = importlib.import_module("transformers")
    is_bare = type(model) in _classes(model.config, [library.AutoModel])
    return f"{type(model).__name__}{' (no head)' if is_bare else ''}"


def _config(library: Any, name: str, folder: Path) -> Any:
    """Return the config of a file, of a type, or of the library's cache.

    Raises:
        RefusedConfig: there is none.
    """
    if name.startswith("{"):  # `with_config`
        fields = json.loads(name)
        return library.CONFIG_MAPPING[fields["model_type"]].from_dict(fields)
    file = _config_file(library, name, folder)
    return library.AutoConfig.for_model(name) if file is None else _read(library, file, name)


def _config_file(library: Any, name: str, folder: Path) -> Path | None:
    """Return the file of a config, or None of a type, which has its defaults.

    Raises:
        RefusedConfig: there is none.
    """
    path = folder / name
    if path.exists():
        return _file(path)
    types = sorted(library.CONFIG_MAPPING.keys())
    if name in types:
        return None
    if (file := _CONFIGS / f"{name}.json").parent == _CONFIGS and file.exists():
        return file
    if name.endswith(".json"):
        raise RefusedConfig(
            f"{PREFIX}{name}: no such file in {folder}; name the model's config.json"
        )
    try:
        return Path(library.utils.cached_file(name, "config.json", local_files_only=True))
    except (OSError, ValueError):
        start = [model_type for model_type in types if name.startswith(f"{model_type}-")]
        near = [max(start, key=len)] if start else get_close_matches(name, types, n=3)
        hint = ", ".join(f"{PREFIX}{model_type}" for model_type in near or ["bert"])
        raise RefusedConfig(
            f"{PREFIX}{name}: its config is not on this machine, and nothing is downloaded; name "
            f"its config.json, or a type of model with its defaults: {hint}"
        ) from None


def _read(library: Any, path: Path, name: str) -> Any:
    try:
        return library.AutoConfig.from_pretrained(path)
    except (OSError, ValueError, KeyError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise RefusedConfig(
            f"{PREFIX}{name}: expected a config.json of transformers {library.__version__}, with "
            f"a known model_type: {lines[0]:.160}"
        ) from None


def _class(library: Any, config: Any, head: str | None, name: str) -> Any:
    """Return the class of a model: by its head, as its config names it, or by its type.

    Raises:
        RefusedConfig: no such head, or no model, is known of its type.
    """
    if head not in (None, NO_HEAD):
        for found in _classes(config, _asked(library, head)):
            return found
        autos = [
            auto for auto in _auto_names(library) if any(_classes(config, [getattr(library, auto)]))
        ]
        names = ", ".join([*map(_task, autos), NO_HEAD])
        raise RefusedConfig(
            f"{PREFIX}{name}: --head {head}: models of type {config.model_type} have {names}"
        )
    if head is None:
        named = getattr(library, next(iter(config.architectures or ()), ""), None)
        if hasattr(named, "_from_config"):
            return named
        trained = [getattr(library, f"{_AUTO}{each}") for each in _heads_trained(config)]
        for found in _classes(config, trained):
            return found
    for found in _classes(config, [library.AutoModel]):
        return found
    raise RefusedConfig(f"{PREFIX}{name}: no model of type {config.model_type} is without a head")


def _heads_trained(config: Any) -> Iterator[str]:
    """Yield the heads that models of a config are trained with, the likeliest first."""
    if config.is_encoder_decoder:
        yield from ("Seq2SeqLM", "SpeechSeq2Seq", "TextToWaveform")
    yield from _TRAINED[1:] if getattr(config, "is_decoder", False) else _TRAINED


def _classes(config: Any, autos: Sequence[Any]) -> Iterator[Any]:
    """Yield the classes that Auto classes have for a config, of several the first."""
    for auto in autos:
        found = auto._model_mapping.get(type(config), None)  # noqa: SLF001
        if found is not None:
            yield found[0] if isinstance(found, list | tuple) else found


def _asked(library: Any, head: str) -> list[Any]:
    """Return the Auto classes of a head, by their name or by a task of the library's pipelines."""
    named = [name for name in _auto_names(library) if _task(name) == head]
    if named:
        return [getattr(library, name) for name in named]
    tasks = importlib.import_module("transformers.pipelines").SUPPORTED_TASKS
    return list(tasks.get(head, {}).get("pt", ()))


def _auto_names(library: Any) -> list[str]:
    return [name for name in dir(library) if name.startswith(_AUTO)]


def _task(auto_name: str) -> str:
    """Return the head of an Auto class: `causal-lm` of AutoModelForCausalLM."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", auto_name.removeprefix(_AUTO)).lower()


def _batch(
    model: Any, config: Any, batch_size: int, length: int | None, name: str
) -> dict[str, Any]:
    """Return what the model is called with, by what it takes.

    Raises:
        RefusedConfig: it runs with none that is known, or there are more words than positions.
    """
    if length is not None and model.main_input_name == "pixel_values":
        raise RefusedConfig(f"{PREFIX}{name}: it sees images; leave out --sequence-length")
    try:
        return batch_of(model, batch_size, _words(config, length, name))
    except NoBatch as error:
        raise RefusedConfig(
            f"{PREFIX}{name}: {error}; write a function that returns the model and a batch, "
            "docs/my-model.md"
        ) from None


def _words(config: Any, length: int | None, name: str) -> int:
    text = text_config(config)
    most = getattr(text, "max_position_embeddings", None)
    if not isinstance(most, int) or most < 1:
        most = None
    if length is not None and most is not None and length > most:
        raise RefusedConfig(
            f"{PREFIX}{name}: --sequence-length: expected at most {most}, the positions of its "
            f"config, found {length}"
        )
    return length or min(SEQUENCE_LENGTH, most or SEQUENCE_LENGTH)
