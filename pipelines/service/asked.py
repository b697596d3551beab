"""Questions of `predict` and `recommend` over HTTP: the options of the commands, but for code.

A network is one of the catalogue, a type of model of Hugging Face, a config.json that comes with
the question, or a model that was traced here before. Nothing else that is imported, and no file of
this machine, is named over HTTP.
"""

import json
import re
import tempfile
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, Self
from weakref import WeakValueDictionary

from pydantic import Field, model_validator

from forecasting.decisions.answer import DecisionAnswer
from forecasting.forecast import ForecastAnswer, ScenarioForecast, predict_curves
from forecasting.options import ForecastOptions, RentalOptions
from forecasting.scope import ForecastRefusal
from models.system import System
from networks.extraction import forget_own_models
from networks.kept_graphs import keep_beside
from networks.own_huggingface import PREFIX
from networks.own_model import traced_targets
from pipelines.cli.answers import PredictAnswer
from pipelines.cli.questions import Say, forecast, recommend
from pipelines.cli.recommendation import RecommendAnswer, answer_page
from pipelines.service.contracts import Sent
from studies.curve import Curve
from warehouse import limits
from warehouse.history import ServedHistory
from warehouse.home import HISTORY, home
from warehouse.records import BadInput
from warehouse.warehouse import Warehouse

_TYPE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_CONFIG_BYTES = 1 << 16
_CONFIG = "A config of Hugging Face, the content of its config.json, in place of dnn."
_KEPT = 250_000
"""Forecasts and refusals that are at hand, of a dozen questions or more."""
_CHANGING = Lock()
"""Of what is at hand: one thread at a time adds to it, and takes away."""


class _WithoutCode(Sent):
    """A question that names no code and no file of this machine."""

    config: Mapping[str, Any] | None = Field(default=None, description=_CONFIG)

    @model_validator(mode="after")
    def _names_no_code(self) -> Self:
        dnn = getattr(self, "dnn", None)
        if (dnn is None) == (self.config is None):
            raise ValueError("name a network (dnn), or send a config; one of them")
        for name in dnn if isinstance(dnn, tuple) else (dnn,):
            text = str(name).removeprefix(PREFIX)
            is_file = text.endswith(".json") or (str(name) != text and Path(text).exists())
            is_name = _TYPE.fullmatch(text) and not is_file
            if name is not None and not is_name and name not in traced_targets(Path.cwd()):
                raise ValueError(
                    f"dnn: expected a network of /v1/support, or {PREFIX}TYPE; code and files are "
                    "not named over HTTP: send a config, or ask on the command line"
                )
        for name in ("head", "lora_targets"):
            if "?" in str(getattr(self, name, None) or ""):
                raise ValueError(f"{name}: expected no question mark")
        if self.config is not None and len(json.dumps(self.config)) > _CONFIG_BYTES:
            raise ValueError(f"config: expected at most {_CONFIG_BYTES:,} bytes")
        return self


class AskedForecast(_WithoutCode, ForecastOptions, defer_build=False):
    """What `stepcast predict` takes, as JSON."""

    file: None = None
    dry_run: bool = True


class AskedJob(_WithoutCode, RentalOptions, defer_build=False):
    """What `stepcast recommend` takes, as JSON."""


@dataclass(frozen=True)
class _Published:
    """A state of the history, and what is at hand as long as it is the last.

    Attributes:
        modified_ns: when it was published.
        read: answers of queries.
        forecasts: of questions, with the curves that they are about.
        locks: of questions that are answered.
    """

    modified_ns: int
    read: OrderedDict[Hashable, Any] = field(default_factory=OrderedDict)
    forecasts: OrderedDict[Hashable, tuple[Sequence[Curve], ForecastAnswer]] = field(
        default_factory=OrderedDict
    )
    locks: WeakValueDictionary[Hashable, Any] = field(default_factory=WeakValueDictionary)


class Answers:
    """Answers as the commands give them, from what is published; the home keeps traces and fits."""

    def __init__(self) -> None:
        keep_beside(home())
        self._configs = tempfile.TemporaryDirectory(prefix="stepcast-configs-")
        self._last = _Published(0)

    def forecast(self, asked: AskedForecast, say: Say) -> str:
        """Return what `stepcast predict --json` prints."""
        options = ForecastOptions.model_validate(self._options(asked))
        answered = forecast(options, say, ServedHistory(home(), self._published().read))
        model = None if answered.own is None else answered.own.as_json()
        samples = options.dataset_samples
        return PredictAnswer.of(answered.answer, model, samples).model_dump_json()

    def recommend(self, asked: AskedJob, refused: bool, say: Say) -> str:
        """Return what `stepcast recommend --json` prints; rows of refusals if asked for."""
        answer, model, _ = self._job(asked, say)
        return RecommendAnswer.of(answer, model, refused=refused).model_dump_json()

    def page(self, asked: AskedJob, say: Say) -> str:
        """Return what `stepcast recommend --html` writes."""
        return answer_page(*self._job(asked, say))

    def _job(
        self, asked: AskedJob, say: Say
    ) -> tuple[DecisionAnswer, Mapping[str, Any] | None, RentalOptions]:
        options, published = RentalOptions.model_validate(self._options(asked)), self._published()
        history = ServedHistory(home(), published.read)
        if options.as_of:  # other forecasts count, which nobody asks for twice
            answer, own = recommend(options, say, history)
        else:
            # Until this minute ends the same is known, and is at hand.
            when = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
            dated = options.model_copy(update={"as_of": when})
            answer, own = recommend(dated, say, history, partial(_predict, published))
        return answer, None if own is None else own.as_json(), options

    def _published(self) -> _Published:
        forget_own_models(but=limits.QUESTIONS)
        history = home() / HISTORY
        modified_ns = history.stat().st_mtime_ns if history.exists() else 0
        if self._last.modified_ns != modified_ns:
            self._last = _Published(modified_ns)
        return self._last

    def close(self) -> None:
        """Remove the configs that came with questions."""
        self._configs.cleanup()

    def _options(self, asked: AskedForecast | AskedJob) -> dict[str, Any]:
        """Return the options of a question; a config that came with it is a file from now on."""
        options = {
            name: value
            for name, value in asked.model_dump(exclude_unset=True, exclude={"config"}).items()
            if value is not None
        }
        if asked.config is not None:
            if "auto_map" in asked.config:
                raise BadInput("config: its model is code of its own (auto_map), which is not run")
            text = json.dumps(asked.config, sort_keys=True)
            file = Path(self._configs.name) / f"{sha256(text.encode()).hexdigest()[:16]}.json"
            file.write_text(text)
            options["dnn"] = f"{PREFIX}{file}"
        return options


def _predict(
    published: _Published,
    history: Warehouse,
    curves: Sequence[Curve],
    systems: Sequence[System],
    **options: Any,
) -> ForecastAnswer:
    """Return what `predict_curves` does; as long as the history is the same, it is at hand.

    Another market, deadline or budget asks for the same forecasts, fewer nodes for some, other
    numbers of nodes for more of the same: these are joined where they rest on the same fits.
    """
    place = tuple(options.get(name) for name in ("backend", "host", "chosen_host"))
    kinds = tuple(curve.model_copy(update={"workers": (1,)}) for curve in curves)
    key, known = (kinds, tuple(system.name for system in systems), place), published.forecasts
    with published.locks.setdefault(key, Lock()):  # who asks the same meanwhile waits for it
        before, answer = known.get(key) or (
            curves,
            predict_curves(history, curves, systems, **options),
        )
        if new := [
            curve.model_copy(update={"workers": more})
            for curve, seen in zip(curves, before, strict=True)
            if (more := tuple(count for count in curve.workers if count not in seen.workers))
        ]:
            of_new = predict_curves(
                history, new, systems, **options | {"chosen_host": answer.chosen_host}
            )
            fits = {each.fit.fit_id for each in answer.forecasts}
            if fits.issuperset(each.fit.fit_id for each in of_new.forecasts):
                counts = [{*a.workers, *b.workers} for a, b in zip(before, curves, strict=True)]
                before = [
                    curve.model_copy(update={"workers": tuple(sorted(both))})
                    for curve, both in zip(curves, counts, strict=True)
                ]
                answer = answer.with_more(of_new)
            else:  # all together rest on other runs
                before, answer = curves, predict_curves(history, curves, systems, **options)
        with _CHANGING:
            known[key] = before, answer
            kept = (len(each.forecasts) + len(each.refused) for _, each in known.values())
            many = sum(kept)
            while many > _KEPT:
                _, (_, oldest) = known.popitem(last=False)
                many -= len(oldest.forecasts) + len(oldest.refused)
    if before == curves:
        return answer
    backend = answer.chosen_host.backend
    asked = [scenario for curve in curves for scenario in curve.scenarios(backend)]
    places = {scenario: place for place, scenario in enumerate(asked)}

    def place_of(each: ScenarioForecast | ForecastRefusal) -> int:
        return places[each.scenario]

    forecasts = sorted((of for of in answer.forecasts if of.scenario in places), key=place_of)
    refused = sorted((of for of in answer.refused if of.scenario in places), key=place_of)
    return replace(answer, forecasts=tuple(forecasts), refused=tuple(refused))
