"""A model of Hugging Face by its config alone: random weights, a head, a batch of its words.

Nothing is asked of the network: a config is a file, a type of model with its defaults, or what the
library's own cache has. `networks/own_program.py` loads this file where no package of ours may be
imported, so it imports none.
"""

import importlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

PREFIX = "hf:"
SEQUENCE_LENGTH = 128
"""Words of a sample where nobody says; fewer where the config's positions end before."""
_MOST_MODULES = 50_000
"""Of a model: no graph that systems read has so many nodes (`networks.primitives.MOST_NODES`)."""
NO_HEAD = "none"
_HEAD, _LENGTH = "?head=", "?sequence_length="
_TARGET = re.compile(
    rf"{PREFIX}(.*?)(?:{re.escape(_HEAD)}([^?]*))?(?:{re.escape(_LENGTH)}(\d+))?", re.DOTALL
)
_EXTRA = "stepcast[huggingface]"
_AUTO = "AutoModelFor"
_TRAINED = (
    *("MaskedLM", "CausalLM", "ImageClassification", "ObjectDetection", "SemanticSegmentation"),
    *("UniversalSegmentation", "DepthEstimation", "ImageTextToText", "SequenceClassification"),
    *("TokenClassification", "PreTraining"),
)
"""Heads that a type is trained with, the first that it has; see `_heads_trained`."""


def with_head(target: str, head: str | None) -> str:
    """Return a target that also says which head the model has; see `from_config`."""
    return target if head is None else f"{target}{_HEAD}{head}"


def with_length(target: str, sequence_length: int | None) -> str:
    """Return a target that also says how many words a sample has, behind its head."""
    return target if sequence_length is None else f"{target}{_LENGTH}{sequence_length}"


def split_target(target: str) -> tuple[str, str | None, int | None]:
    """Return the config that a target names, its head, and words of a sample."""
    matched = _TARGET.fullmatch(target)
    assert matched is not None, target
    name, head, length = matched.groups()
    return name, head, int(length) if length else None


def from_config(target: str, batch_size: int, folder: str) -> tuple[Any, dict[str, Any]]:
    """Return a module, and a batch by argument.

    Args:
        target: `hf:` and a config.json, its folder, or a type of model such as `bert`; perhaps with
            a head (`with_head`): `none`, a task of the library's pipelines such as
            `text-generation`, or an Auto class such as `causal-lm`; without, it is that of the
            class which the config names, else what models of its type are trained with. Perhaps
            with the length of `with_length`.
        batch_size: samples of the batch.
        folder: in which relative paths begin.

    Raises:
        ValueError: there is no such config or head, or no batch is known for it; the message says
            what to do.
    """
    os.environ["HF_HUB_OFFLINE"] = "1"
    name, head, length = split_target(target)
    try:
        library: Any = importlib.import_module("transformers")
    except ModuleNotFoundError:
        raise ValueError(
            f"{PREFIX}{name}: models of Hugging Face need its library; `pip install "
            f"transformers`, or install {_EXTRA}"
        ) from None
    library.logging.set_verbosity_error()
    config = _config(library, name, Path(folder))
    model_class = _class(library, config, head, name)
    try:
        with _few_modules():
            model = model_class(config)
    except (ValueError, KeyError, ImportError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ValueError(f"{PREFIX}{name}: its config makes no model: {lines[0]:.200}") from None
    return model, _batch(model, config, batch_size, length, name)


@contextmanager
def _few_modules() -> Iterator[None]:
    """Build no more modules than `_MOST_MODULES`: a config may ask for any number of layers.

    Raises:
        ValueError: there are more.
    """
    from torch.nn.modules.module import register_module_module_registration_hook

    left = iter(range(_MOST_MODULES))

    def count(*_: object) -> None:
        if next(left, None) is None:
            raise ValueError(f"it has more than {_MOST_MODULES:,} modules")

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
        ValueError: there is none.
    """
    path = folder / name
    if path.exists():
        return _read(library, path if path.is_file() else path / "config.json", name)
    types = sorted(library.CONFIG_MAPPING.keys())
    if name in types:
        return library.AutoConfig.for_model(name)
    if name.endswith(".json"):
        raise ValueError(f"{PREFIX}{name}: no such file in {folder}; name the model's config.json")
    try:
        return library.AutoConfig.from_pretrained(name, local_files_only=True)
    except (OSError, ValueError):
        start = [model_type for model_type in types if name.startswith(f"{model_type}-")]
        near = [max(start, key=len)] if start else get_close_matches(name, types, n=3)
        hint = ", ".join(f"{PREFIX}{model_type}" for model_type in near or ["bert"])
        raise ValueError(
            f"{PREFIX}{name}: its config is not on this machine, and nothing is downloaded; name "
            f"its config.json, or a type of model with its defaults: {hint}"
        ) from None


def _read(library: Any, path: Path, name: str) -> Any:
    try:
        return library.AutoConfig.from_pretrained(path)
    except (OSError, ValueError, KeyError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ValueError(
            f"{PREFIX}{name}: expected a config.json of transformers {library.__version__}, with "
            f"a known model_type: {lines[0]:.160}"
        ) from None


def _class(library: Any, config: Any, head: str | None, name: str) -> Any:
    """Return the class of a model: by its head, as its config names it, or by its type.

    Raises:
        ValueError: no such head, or no model, is known of its type.
    """
    if head not in (None, NO_HEAD):
        for found in _classes(config, _asked(library, head)):
            return found
        autos = [
            auto for auto in _auto_names(library) if any(_classes(config, [getattr(library, auto)]))
        ]
        names = ", ".join([*map(_task, autos), NO_HEAD])
        raise ValueError(
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
    raise ValueError(f"{PREFIX}{name}: no model of type {config.model_type} is without a head")


def _heads_trained(config: Any) -> Iterator[str]:
    """Yield the heads that models of a config are trained with, the likeliest first."""
    if config.is_encoder_decoder:
        yield from ("Seq2SeqLM", "SpeechSeq2Seq")
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
    """Return what the model is called with, by its main input.

    Raises:
        ValueError: that is neither words nor images, or there are more words than positions.
    """
    import torch

    match model.main_input_name:
        case "input_ids":
            words = _words(config, length, name)
            ids = torch.ones(batch_size, words, dtype=torch.long)
            ids %= int(getattr(config.get_text_config(), "vocab_size", 2))
            both = {"decoder_input_ids": ids} if config.is_encoder_decoder else {}
            return {"input_ids": ids, **both}
        case "pixel_values" if length is None:
            side = getattr(config, "image_size", None) or 224
            sides = side if isinstance(side, list | tuple) else (side, side)
            return {
                "pixel_values": torch.zeros(batch_size, getattr(config, "num_channels", 3), *sides)
            }
        case "pixel_values":
            raise ValueError(f"{PREFIX}{name}: it sees images; leave out --sequence-length")
        case other:
            raise ValueError(
                f"{PREFIX}{name}: no batch is known for {other}; write a function that returns the "
                "model and a batch, docs/my-model.md"
            )


def _words(config: Any, length: int | None, name: str) -> int:
    text = config.get_text_config()
    most = getattr(text, "max_position_embeddings", None)
    if not isinstance(most, int) or most < 1:
        most = None
    if length is not None and most is not None and length > most:
        raise ValueError(
            f"{PREFIX}{name}: --sequence-length: expected at most {most}, the positions of its "
            f"config, found {length}"
        )
    return length or min(SEQUENCE_LENGTH, most or SEQUENCE_LENGTH)
