"""A model of Hugging Face by its config alone: random weights, and a batch of the config's words.

Nothing is asked of the network: a config is a file, a type of model with its defaults, or what the
library's own cache has. `networks/own_program.py` loads this file where no package of ours may be
imported, so it imports none.
"""

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

PREFIX = "hf:"
SEQUENCE_LENGTH = 128
"""Words of a sample where nobody says; fewer where the config's positions end before."""
_MOST_MODULES = 50_000
"""Of a model: no graph that systems read has so many nodes (`networks.primitives.MOST_NODES`)."""
_LENGTH = "?sequence_length="
_EXTRA = "stepcast[huggingface]"


def with_length(target: str, sequence_length: int | None) -> str:
    """Return a target that also says how many words a sample has."""
    return target if sequence_length is None else f"{target}{_LENGTH}{sequence_length}"


def from_config(target: str, batch_size: int, folder: str) -> tuple[Any, dict[str, Any]]:
    """Return a module, and a batch by argument.

    Args:
        target: `hf:` and a config.json, its folder, or a type of model such as `bert`; perhaps with
            the length of `with_length`.
        batch_size: samples of the batch.
        folder: in which relative paths begin.

    Raises:
        ValueError: there is no such config, or no batch is known for it; the message says what to
            do.
    """
    os.environ["HF_HUB_OFFLINE"] = "1"
    name, _, length = target.removeprefix(PREFIX).partition(_LENGTH)
    try:
        library: Any = importlib.import_module("transformers")
    except ModuleNotFoundError:
        raise ValueError(
            f"{PREFIX}{name}: models of Hugging Face need its library; `pip install "
            f"transformers`, or install {_EXTRA}"
        ) from None
    library.logging.set_verbosity_error()
    config = _config(library, name, Path(folder))
    try:
        with _few_modules():
            model = _class(library, config).from_config(config)
    except (ValueError, KeyError, ImportError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ValueError(f"{PREFIX}{name}: its config makes no model: {lines[0]:.200}") from None
    return model, _batch(model, config, batch_size, int(length) if length else None, name)


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


def config_file(target: str, folder: Path) -> Path | None:
    """Return the file that a target names as its config; None: it names none."""
    path = folder / target.removeprefix(PREFIX).partition(_LENGTH)[0]
    if not path.exists():
        return None
    return path if path.is_file() else path / "config.json"


def _config(library: Any, name: str, folder: Path) -> Any:
    """Return the config of a file, of a type, or of the library's cache.

    Raises:
        ValueError: there is none.
    """
    path = config_file(name, folder)
    if path is not None:
        return _read(library, path, name)
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


def _class(library: Any, config: Any) -> Any:
    """Return what builds the model that a config names, with its head; else the model alone."""
    named = next(iter(config.architectures or ()), "")
    model_class = getattr(library, named, None)
    return _LibraryClass(model_class) if hasattr(model_class, "_from_config") else library.AutoModel


class _LibraryClass:
    """A class of the library, which builds as `AutoModel` does."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def from_config(self, config: Any) -> Any:
        """Return the model with random weights."""
        return self._model(config)


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
            ids %= int(config.get_text_config().vocab_size)
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
