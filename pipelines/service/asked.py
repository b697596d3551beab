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
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, Self

from pydantic import Field, model_validator

from forecasting.forecast import ForecastAnswer, predict_curves
from forecasting.options import ForecastOptions, RentalOptions
from models.system import System
from networks.kept_graphs import keep_beside
from networks.own_huggingface import PREFIX
from networks.own_model import traced_targets
from pipelines.cli.answers import PredictAnswer
from pipelines.cli.questions import AnsweredJob, Say, forecast, recommend
from pipelines.cli.recommendation import RecommendAnswer, answer_page
from pipelines.cli.workload import as_json
from pipelines.service.contracts import Sent
from studies.curve import Curve
from warehouse.history import PublishedHistory
from warehouse.home import HISTORY, home
from warehouse.records import BadInput
from warehouse.warehouse import Warehouse

_TYPE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_CONFIG_BYTES = 1 << 16
_CONFIG = "A config of Hugging Face, the content of its config.json, in place of dnn."
_KEPT = 32
"""Forecasts of questions that are at hand."""


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
        for field in ("head", "lora_targets"):
            if "?" in str(getattr(self, field, None) or ""):
                raise ValueError(f"{field}: expected no question mark")
        if self.config is not None and len(json.dumps(self.config)) > _CONFIG_BYTES:
            raise ValueError(f"config: expected at most {_CONFIG_BYTES:,} bytes")
        return self


class AskedForecast(_WithoutCode, ForecastOptions):
    """What `stepcast predict` takes, as JSON."""

    file: None = None
    dry_run: bool = True


class AskedJob(_WithoutCode, RentalOptions):
    """What `stepcast recommend` takes, as JSON."""


class Answers:
    """Answers as the commands give them, from what is published; the home keeps traces alone."""

    def __init__(self) -> None:
        keep_beside(home())
        self._configs = tempfile.TemporaryDirectory(prefix="stepcast-configs-")
        self._forecasts: OrderedDict[Hashable, ForecastAnswer] = OrderedDict()
        self._lock = Lock()

    def forecast(self, asked: AskedForecast, say: Say) -> str:
        """Return what `stepcast predict --json` prints."""
        options = ForecastOptions.model_validate(self._options(asked))
        answered = forecast(options, say, PublishedHistory(home()))
        model = None if answered.own is None else answered.own.as_json()
        samples = options.dataset_samples
        return PredictAnswer.of(answered.answer, model, samples).model_dump_json()

    def recommend(self, asked: AskedJob, refused: bool, say: Say) -> str:
        """Return what `stepcast recommend --json` prints; rows of refusals if asked for."""
        job, model, _ = self._job(asked, say)
        return RecommendAnswer.of(job.answer, model, refused=refused).model_dump_json()

    def page(self, asked: AskedJob, say: Say) -> str:
        """Return what `stepcast recommend --html` writes."""
        job, model, options = self._job(asked, say)
        return answer_page(job.answer, model, options)

    def _job(
        self, asked: AskedJob, say: Say
    ) -> tuple[AnsweredJob, Mapping[str, Any] | None, RentalOptions]:
        options = RentalOptions.model_validate(self._options(asked))
        # As of another day other forecasts count, which nobody asks for twice.
        predict = None if options.as_of else self._predict
        job = recommend(options, say, PublishedHistory(home()), predict)
        return job, None if job.model is None else as_json(job.target or "", job.model), options

    def _predict(
        self,
        history: Warehouse,
        curves: Sequence[Curve],
        systems: Sequence[System],
        **options: Any,
    ) -> ForecastAnswer:
        """Return what `predict_curves` does; as long as the history is the same, it is at hand.

        Another market, deadline or budget asks for the same forecasts, fewer nodes for some.
        """
        place = tuple(options.get(name) for name in ("backend", "host", "chosen_host"))
        published_ns = (history.home / HISTORY).stat().st_mtime_ns
        kinds = tuple(curve.model_copy(update={"workers": (1,)}) for curve in curves)
        key = published_ns, kinds, tuple(system.name for system in systems), place
        answer = _forecasts_of(self._forecasts.get(key), curves)
        if answer is None:
            with self._lock:  # who asks meanwhile would make the same fit once more
                answer = _forecasts_of(self._forecasts.get(key), curves)
                if answer is None:
                    answer = predict_curves(history, curves, systems, **options)
                    self._forecasts[key] = answer
                    while len(self._forecasts) > _KEPT:
                        self._forecasts.popitem(last=False)
        return answer

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


def _forecasts_of(answer: ForecastAnswer | None, curves: Sequence[Curve]) -> ForecastAnswer | None:
    """Return what an answer says of curves; None if it says nothing of some."""
    if answer is None:
        return None
    asked = {each for curve in curves for each in curve.scenarios(answer.chosen_host.backend)}
    forecasts = tuple(each for each in answer.forecasts if each.scenario in asked)
    refused = tuple(each for each in answer.refused if each.scenario in asked)
    known = {each.scenario for each in forecasts} | {each.scenario for each in refused}
    return replace(answer, forecasts=forecasts, refused=refused) if known == asked else None
