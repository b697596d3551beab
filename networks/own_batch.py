"""What a model of Hugging Face is called with, made from its config: words, images, sound, series.

A model's `forward` says what it takes. Images and sound are what the library's own processor of
the type makes of a black image and of silence. Where it has none, shapes follow the config. Where
several shapes are possible, the first is taken with which the model runs.

`networks/own_program.py` loads this file where no package of ours may be imported, so it imports
none.
"""

import importlib
import inspect
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from typing import Any

SEQUENCE_LENGTH = 128
"""Words of a sample where nobody says; fewer where the config's positions end before."""
SOUND_S = 10
"""Of a sample's sound, unless its type's feature extractor pads or cuts to another length."""
_WINDOW = 1920
"""Samples that some cut sound into."""
_PATCHES = 256
"""Of a sample that is given as patches of images."""
_SIDES = ("image_size", "input_size", "crop_size", "img_size")
_CHANNELS = ("num_channels", "in_channels", "in_chans", "channels", "image_channels")
_MELS = (
    *("num_mel_bins", "n_mels", "num_mel_filters", "mel_bins", "input_feat_per_channel"),
    *("feature_projection_input_dim", "input_feat_size", "input_dim", "feature_size"),
)
_SHAPES = ("spatial_shapes", "target_sizes")
_VECTORS = ("hidden_states", "_embeds")
"""How names end of what takes a vector in the place of each word."""
_FRAMES = ("num_frames", "frames_per_clip")
_PLACED = ("image", "audio", "video")
"""What a model puts in the place of words that the config names."""
Batch = dict[str, Any]


class NoBatch(ValueError):
    """No batch is known with which a model runs; the message says why."""


_taken: dict[str, int] = {}
"""Which of the possible batches models of a config run with."""


def batch_of(model: Any, batch_size: int, words: int) -> Batch:
    """Return what a model is called with.

    Args:
        model: of Hugging Face.
        batch_size: samples.
        words: of a sample, where it reads words.

    Raises:
        NoBatch: it runs with none that is known.
    """
    import torch

    taken = inspect.signature(model.forward).parameters
    maker = _Maker(model, batch_size, words, taken)
    if model.main_input_name == "input_ids" and not maker.has_choice:
        return maker.words_alone()
    name = f"{type(model).__name__} {model.config.to_json_string()}"
    error: Exception | None = None
    if name in _taken:
        for batch in islice(maker.batches(), _taken[name], None):
            return batch
    for place, batch in enumerate(maker.batches()):
        try:
            with torch.no_grad():
                model(**batch)
        except Exception as failed:
            error = error or failed
            continue
        _taken[name] = place
        return batch
    lines = str(error).strip().splitlines() or [type(error).__name__]
    raise NoBatch(f"no batch is known for {model.main_input_name} ({lines[0]:.120})")


class _Maker:
    """Makes batches that a model might take, the likeliest first."""

    def __init__(self, model: Any, batch_size: int, words: int, taken: Mapping[str, Any]) -> None:
        self.model, self.config, self.taken = model, model.config, taken
        self.batch_size, self.words = batch_size, words
        self.main: str = model.main_input_name
        self.required = [
            name
            for name, each in taken.items()
            if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD
            if name != "input_ids"
        ]
        seen = ("pixel_values", "input_features", "input_values")
        self.sees = [name for name in taken if name.startswith(seen) and "mask" not in name]
        self.codebooks = getattr(self.config, "num_codebooks", None)
        self.has_choice = bool(self.sees or self.required or self.codebooks)

    def words_alone(self) -> Batch:
        """Return words, for the decoder too where there is one."""
        import torch

        ids = torch.ones(self.batch_size, self.words, dtype=torch.long)
        ids %= int(getattr(text_config(self.config), "vocab_size", 2))
        both = {"decoder_input_ids": ids} if self.config.is_encoder_decoder else {}
        decoder = getattr(self.config, "decoder_config", getattr(self.config, "decoder", None))
        if both and (books := getattr(decoder, "num_codebooks", 0)):  # one below the other
            both = {"decoder_input_ids": ids.repeat(books, 1)}
        if both and (channels := getattr(decoder, "num_channels", 0)):  # of sound, side by side
            both = {"decoder_input_ids": ids[..., None].expand(-1, -1, channels).contiguous()}
        return {"input_ids": ids, **both, **self._others({"input_ids": ids, **both})}

    def batches(self) -> Iterator[Batch]:
        """Yield batches; last the words alone."""
        import torch

        for given in chain(self._processed(), self._of_config()):
            others = self._others(given)
            if "input_ids" not in self.taken or self.main in given:
                yield {**given, **others}
            if "input_ids" in self.taken:
                try:
                    words = self._words_with({**given, **others})
                except Exception:
                    continue
                yield {**words, **given, **others}
        if "input_ids" in self.taken:
            ids = self.words_alone()
            yield ids
            kinds = [name for name in ("mm_token_type_ids", "token_type_ids") if name in self.taken]
            yield ids | dict.fromkeys(kinds, torch.zeros_like(ids["input_ids"]))
            for several in (self.codebooks, self.codebooks + 1) if self.codebooks else ():
                each = ids["input_ids"][..., None].expand(-1, -1, several)
                yield ids | {"input_ids": each.contiguous()}

    def _processed(self) -> Iterator[Batch]:
        """Yield what the library's processors of the type make of a black image or silence."""
        import torch

        for kind in ("image_processing", "feature_extraction"):
            for config in (self.config, *_parts(self.config)):
                made = _processed(kind, config)
                named = {
                    name: torch.cat([torch.as_tensor(value)] * self.batch_size)
                    for name, value in made.items()
                    if name in self.taken and len(value)
                }
                if named.keys() & {*self.sees, self.main}:
                    yield named
                    break

    def _of_config(self) -> Iterator[Batch]:
        """Yield what shapes of the config give."""
        import torch

        n, find = self.batch_size, self._find
        if "pixel_values" in self.taken:
            yield from self._images()
        elif "hidden_states" in self.required:
            yield from self._patches("hidden_states")
        if "pixel_values_videos" in (self.main, *self.required):
            for shape in self._image_shapes():
                yield {"pixel_values_videos": torch.zeros(n, find(_FRAMES, 8), *shape)}
        if "input_features" in self.taken:
            mels, frames = find(_MELS, 80), find(("max_source_positions",), 500)
            for shape in ((mels, 2 * frames), (1000, mels), (1, 1001, mels), (1000, 2 * mels)):
                yield {"input_features": torch.zeros(n, *shape)}
        if "input_values" in self.taken:
            samples = SOUND_S * find(("sampling_rate", "sample_rate"), 16000)
            whole = samples // _WINDOW * _WINDOW
            for shape in ((samples,), (1, samples), (whole,), (1024, find(_MELS, 80))):
                yield {"input_values": torch.zeros(n, *shape)}
        if vectors := [name for name in self.required if name.endswith(_VECTORS)]:
            yield {}
            # Of sound, each of their numbers is a channel over time.
            yield {name: self._vectors(name).transpose(1, 2) for name in vectors}
        if "past_values" in self.taken:
            yield from self._series()
        if "flattened_patches" in self.taken:
            side = find(("patch_size",), 16)
            patches = torch.zeros(n, _PATCHES, 2 + side * side * find(_CHANNELS, 3))
            yield {"flattened_patches": patches}

    def _images(self) -> Iterator[Batch]:
        """Yield images as they are, several of a sample, and as patches side by side."""
        import torch

        n = self.batch_size
        for shape in self._image_shapes():
            yield {"pixel_values": torch.zeros(n, *shape)}
            yield {"pixel_values": torch.zeros(n, self._find(_FRAMES, 1), *shape)}
        yield from self._patches("pixel_values")

    def _patches(self, name: str) -> Iterator[Batch]:
        """Yield patches of images, with how many there are in each direction."""
        import torch

        n, side = self.batch_size, int(_PATCHES**0.5)
        patch = _side(self._find(("patch_size",), 14))[0]
        numbers = patch * patch * self._find(_CHANNELS, 3)
        for sizes, grid in (
            (("grid_thw", "image_grid_thw"), [1, side, side]),
            (_SHAPES, [side] * 2),
        ):
            said = {each: torch.tensor([grid] * n) for each in sizes if each in self.taken}
            if not said:
                continue
            for times in dict.fromkeys((self._find(("temporal_patch_size",), 1), 1)):
                yield {name: torch.zeros(n * _PATCHES, numbers * times), **said}
            for rows in (n, 1) if sizes is _SHAPES else ():
                shape = (rows, self._find(_CHANNELS, 3), patch, patch * _PATCHES * n // rows)
                yield {name: torch.zeros(*shape), **said}
            mask = {"pixel_attention_mask": torch.ones(n, _PATCHES, dtype=torch.long)}
            mask = mask if "pixel_attention_mask" in self.taken else {}
            yield {name: torch.zeros(n, _PATCHES, numbers), **said, **mask}

    def _image_shapes(self) -> Iterator[tuple[int, ...]]:
        """Yield channels and sides, as today's config says first."""
        channels = self._find(_CHANNELS, 3)
        sides = (_side(self._find(_SIDES, 224)), (224, 224), (512, 512), (640, 640))
        for side in dict.fromkeys(sides):
            yield channels, *side

    def _series(self) -> Iterator[Batch]:
        import torch

        n, find = self.batch_size, self._find
        lags = getattr(self.config, "lags_sequence", None) or [0]
        past = find(("context_length",), 64)
        future = find(("prediction_length",), 1) or 1
        channels, times = find(("input_size",), 1), find(("num_time_features",), 1)
        if any(name.startswith("past_time") for name in self.taken):
            past += max(lags)
            sizes = () if channels == 1 else (channels,)
            values = {
                "past_values": torch.zeros(n, past, *sizes),
                "past_observed_mask": torch.ones(n, past, *sizes),
                "past_time_features": torch.zeros(n, past, times),
                "future_values": torch.zeros(n, future, *sizes),
                "future_time_features": torch.zeros(n, future, times),
            }
            if static := find(("num_static_categorical_features",), 0):
                values["static_categorical_features"] = torch.zeros(n, static, dtype=torch.long)
            yield {name: value for name, value in values.items() if name in self.taken}
        else:
            channels = find(("num_input_channels",), channels)
            for shape in ((past, channels), (past,)):
                yield {"past_values": torch.zeros(n, *shape)}

    def _words_with(self, given: Batch) -> Batch:
        """Return words; before them those in whose places a model puts what it sees or hears."""
        import torch

        ids = self.words_alone()
        first, kinds = list[Any](), list[Any]()
        for number, kind in enumerate(_PLACED, 1):
            names = (f"{kind}_token_id", f"{kind}_token_index")
            rows = self._rows(kind, given)
            if not rows:
                continue
            tokens = (getattr(self.config, name, None) for name in names)
            token = next(filter(_is_whole, tokens), None)
            if token is None and any(hasattr(self.config, name) for name in names):
                # A config that names no word for images has room for one at its end.
                token = int(getattr(text_config(self.config), "vocab_size", 2)) - 1
                for name in filter(partial(hasattr, self.config), names):
                    setattr(self.config, name, token)
            if token is not None:
                first.append(torch.full((self.batch_size, rows), token))
                kinds.append(torch.full((self.batch_size, rows), number))
        ids["input_ids"] = torch.cat([*first, ids["input_ids"]], 1)
        if "mm_token_type_ids" in self.taken:
            text = torch.zeros(self.batch_size, self.words, dtype=torch.long)
            ids["mm_token_type_ids"] = torch.cat([*kinds, text], 1)
        return ids

    def _rows(self, kind: str, given: Batch) -> int:
        """Return how many places of words a sample's images or sound take."""
        import torch

        for part in (self.model, getattr(self.model, "model", None)):
            features = getattr(part, f"get_{kind}_features", None)
            if features is None:
                continue
            taken = inspect.signature(features).parameters
            named = {name: value for name, value in given.items() if name in taken}
            if not any(name in self.sees for name in named):
                continue
            with torch.no_grad():
                made = features(**named)
            made = getattr(made, "pooler_output", None) if hasattr(made, "keys") else made
            if isinstance(made, tuple) and len(made) and isinstance(made[0], list | tuple):
                made = made[0]
            several = made if isinstance(made, list | tuple) else [made]
            rows = [each.numel() // each.shape[-1] for each in several if torch.is_tensor(each)]
            return sum(rows) // self.batch_size
        return 0

    def _others(self, given: Batch) -> Batch:
        """Return what else the model must be called with."""
        import torch

        found = Batch()
        n, words = self.batch_size, self.words
        decoder = ["decoder_input_ids"] if self.config.is_encoder_decoder else []
        optional = filter(self.taken.__contains__, ("bbox", "image_attention_mask", *decoder))
        for name in (*self.required, *optional):
            if name in given:
                continue
            if name.endswith("input_ids"):
                found[name] = torch.ones(n, words, dtype=torch.long)
            elif name.endswith("attention_mask"):
                images = [1] if name == "image_attention_mask" else []
                found[name] = torch.ones(n, words, *images, dtype=torch.long)
            elif name == "bbox":
                found[name] = torch.zeros(n, words, 4, dtype=torch.long)
            elif name.endswith("_ids"):
                found[name] = torch.zeros(n, words, dtype=torch.long)
            elif name.endswith(_VECTORS):
                found[name] = self._vectors(name)
        return found

    def _vectors(self, name: str) -> Any:
        """Return those of words; a draft reads those of several layers of another, side by side."""
        import torch

        layers = len(self._find(("target_layer_ids",), [0])) if name.startswith("context") else 1
        return torch.zeros(self.batch_size, self.words, layers * self._find(("hidden_size",), 1))

    def _find(self, names: tuple[str, ...], default: Any) -> Any:
        """Return the first of some values that the config has, or one of its parts."""
        for config in (self.config, *_parts(self.config)):
            for name in names:
                value = getattr(config, name, None)
                if value is not None and not isinstance(value, str):
                    return value
        return default


def text_config(config: Any) -> Any:
    """Return the config of what reads words; of several, that of the decoder."""
    try:
        return config.get_text_config()
    except ValueError:
        return config.get_text_config(decoder=True)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and value >= 0


def _parts(config: Any) -> list[Any]:
    """Return the configs inside a config, of what sees and hears first."""
    inside = [(name, each) for name, each in vars(config).items() if hasattr(each, "model_type")]
    return [each for _, each in sorted(inside, key=lambda pair: "text" in pair[0])]


def _side(size: Any) -> tuple[int, ...]:
    if isinstance(size, Mapping):
        size = [size.get("height", 224), size.get("width", 224)]
    if isinstance(size, list | tuple):
        return tuple(int(each) for each in size[-2:]) if len(size) > 1 else (int(size[0]),) * 2
    return int(size), int(size)


def _processed(kind: str, config: Any) -> Mapping[str, Any]:
    """Return what a processor of a type makes of a black image, or of silence; empty: none does."""
    auto = importlib.import_module(f"transformers.models.auto.{kind}_auto")
    library: Any = importlib.import_module("transformers")
    is_image = kind == "image_processing"
    names = auto.IMAGE_PROCESSOR_MAPPING_NAMES if is_image else auto.FEATURE_EXTRACTOR_MAPPING_NAMES
    name = names.get(config.model_type)
    name = name.get("pil") if isinstance(name, Mapping) else name
    if name is None:
        return {}
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    with unset_fake_temporarily(), suppress(Exception):
        import numpy as np

        made_of = getattr(library, name)
        if is_image:
            said = next((s for s in (getattr(config, each, None) for each in _SIDES) if s), None)
            side = _side(said or 224)
            black, size = np.zeros((*side, 3), np.uint8), {"height": side[0], "width": side[1]}
            for settings in ({"size": size, "crop_size": size}, {}) if said else ({},):
                with suppress(Exception):
                    return dict(made_of(**settings)(images=[black], return_tensors="pt"))
        mels = next(filter(None, (getattr(config, each, None) for each in _MELS)), None)
        for settings in ({"feature_size": mels} if mels else {}, {}):
            with suppress(Exception):
                extractor = made_of(**settings)
                rate = getattr(extractor, "sampling_rate", 16000)
                silence = np.zeros(SOUND_S * rate, np.float32)
                return dict(extractor(silence, sampling_rate=rate, return_tensors="pt"))
    return {}
