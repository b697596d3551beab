"""A study: the YAML file that lists what to train and to test, by which systems and probes."""

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationError, field_validator, model_validator

from networks.extraction import register_own_model
from networks.own_huggingface import PREFIX, as_trained
from networks.own_model import NoGraph, tracing
from profilers.clusters import BackendChoice
from profilers.probe import Metric
from profilers.probes import PROBES
from profilers.record_file import fault, read_record
from studies.curve import Curve, expand, gpu_precisions
from warehouse import limits
from warehouse.fields import Name
from warehouse.records import Backend, BadInput, Record, Scenario, error_context

# Parts of a study file: templates of scenarios, and what is repeated.


Train = Annotated[tuple[Curve, ...], BeforeValidator(partial(expand, judged=False))]
Test = Annotated[tuple[Curve, ...], BeforeValidator(partial(expand, judged=True))]
"""The curves of a template."""


class RepeatRules(Record):
    """What rounds after the first repeat: a fraction of test scenarios with W >= 2, by seed.

    With `profiles` they are profiled anew too; without, forecasts rest on the profiles that there
    are, and only what judges them is measured again.
    """

    fraction: float = Field(default=1.0, gt=0, le=1, allow_inf_nan=False)
    seed: int = 0
    profiles: bool = True


def select_repeated(curve: Curve, chosen: Iterable[tuple[Curve, int]]) -> Curve | None:
    """Return what is chosen of a curve, None if nothing is; all of one that fits may see."""
    if not curve.is_judged:
        return curve
    workers = tuple(sorted(workers for other, workers in chosen if other == curve))
    return curve.model_copy(update={"workers": workers}) if workers else None


def known_scenarios(curve: Curve) -> tuple[Scenario, ...]:
    """Return what a curve is of; nothing where node types are unknown on this host.

    Those are refused with their field where a study is checked (`forecasting.study_checks`).
    """
    try:
        return curve.scenarios("emulated")
    except BadInput:
        return ()


OF_FLEET = ("fleet.", "watch.")
"""How names of studies begin that profile and watch the members of the fleet."""


class Study(Record):
    """What a study file says.

    Attributes:
        name: of its runs, for ever.
        description: one line.
        backend: where it runs.
        systems: that forecast it; none: all that do not refuse.
        probes: settings of probes by name, those that are not said having defaults. Optional probes
            run only if they are named.
        again: what later rounds repeat.
        learns_from: other studies, of whichever host: systems with
            `System.transfers_across_hosts` learn from their profile runs too.
        train: scenarios that fits may see, as templates.
        test: scenarios that are forecast, then measured, as templates; none: the study only
            profiles, by the probes that it names, what it lists under train.
    """

    name: Name
    description: str = ""
    backend: BackendChoice = "auto"
    systems: tuple[str, ...] = Field(default=(), max_length=limits.LISTED)
    probes: Mapping[str, Any] = Field(default_factory=dict)
    again: RepeatRules = RepeatRules()
    learns_from: tuple[Name, ...] = Field(default=(), max_length=limits.LISTED)
    train: tuple[Train, ...] = Field(default=(), max_length=limits.LISTED)
    test: tuple[Test, ...] = Field(default=(), max_length=limits.LISTED)

    @field_validator("systems", "learns_from")
    @classmethod
    def _each_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) < len(names):
            raise ValueError(f"should name each once, found {list(names)}")
        return names

    @field_validator("probes")
    @classmethod
    def _probes_have_settings(cls, probes: Mapping[str, Any]) -> Mapping[str, Any]:
        if unknown := sorted(probes.keys() - PROBES.keys()):
            near = get_close_matches(unknown[0], PROBES, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(PROBES)}"
            raise ValueError(f"no probe {unknown[0]!r}; {hint}")
        return probes

    @model_validator(mode="after")
    def _has_something_to_do(self) -> Self:
        if self.name in self.learns_from:
            raise ValueError("learns_from: a study learns from its own train scenarios as it is")
        if self.test:
            return self
        if not (self.train and self.probes):
            raise ValueError(
                "test: missing; a study without it only profiles, and names under probes what "
                "with, under train what of"
            )
        for name, given in (("systems", self.systems), ("learns_from", self.learns_from)):
            if given:
                raise ValueError(f"{name}: nothing is forecast without test; leave it out")
        return self

    @model_validator(mode="after")
    def _settings_are_valid(self) -> Self:
        for name in self.probes:
            try:
                self.settings_of(name)
            except ValidationError as error:
                raise ValueError(fault(error, PROBES[name].settings, ("probes", name))) from None
        return self

    @model_validator(mode="after")
    def each_scenario_once(self) -> Self:
        seen: dict[tuple[Scenario, float | None, bool], str] = {}
        for curve in self.curves:
            place = self.place_of(curve)
            for scenario in known_scenarios(curve):
                # Forecasts from profiles on links of several speeds are several.
                profiled_at = curve.profiled_at_mbps if curve.is_judged else None
                key = scenario, profiled_at, curve.is_judged
                if key in seen:
                    raise ValueError(f"{place} repeats {scenario.label} of {seen[key]}")
                if shown := seen.get((scenario, None, False)):
                    raise ValueError(
                        f"{place}: {scenario.label} is in {shown} too, where fits would see it"
                    )
                seen[key] = place
        return self

    @property
    def curves(self) -> tuple[Curve, ...]:
        """The curves of all templates, those that fits may see first."""
        return tuple(curve for template in (*self.train, *self.test) for curve in template)

    def place_of(self, curve: Curve) -> str:
        """Return where a curve is in the file: train[0], test[3]."""
        for name, templates in (("train", self.train), ("test", self.test)):
            for index, template in enumerate(templates):
                if curve in template:
                    return f"{name}[{index}]"
        raise ValueError(f"{curve} is not of study {self.name}")

    def settings_of(self, probe: str) -> Any:
        """Return the settings of a probe, defaults where the file says nothing."""
        given = self.probes.get(probe)
        return PROBES[probe].settings.model_validate({} if given is None else given)

    @property
    def metric(self) -> Metric:
        """What is predicted and measured of the first curve that is judged."""
        return self.test[0][0].metric

    @property
    def metrics(self) -> frozenset[str]:
        """The names of all metrics that it is judged by."""
        return frozenset(curve.metric.name for template in self.test for curve in template)

    @property
    def only_profiles(self) -> bool:
        """Whether nothing of it is forecast or judged."""
        return not self.test

    @property
    def carries_train(self) -> bool:
        """Whether later rounds go on with what was measured of train scenarios: they are a part."""
        return bool(self.train) and self.again.fraction < 1 and bool(self._drawn_from)

    @property
    def carries_profiles(self) -> bool:
        """Whether later rounds go on with all that was profiled."""
        return not self.again.profiles and not self.only_profiles

    def in_round(self, repeat: int) -> "Study":
        """Return what a round does: all of the first one, and what is repeated in later ones.

        What is repeated is drawn from test scenarios of several workers, or of one where no others
        are. A `mix` is somebody's choice, and no sample is drawn of choices.
        """
        drawn_from = self._drawn_from
        if repeat == 1 or self.again.fraction == 1 or not drawn_from:
            return self
        count = max(1, round(self.again.fraction * len(drawn_from)))
        chosen = random.Random(self.again.seed).sample(drawn_from, count)
        return self.with_curves(select_repeated(curve, chosen) for curve in self.curves)

    def with_curves(self, curves: Iterable[Curve | None]) -> "Study":
        """Return this study with other curves than its own, each a template of its own."""
        kept = [curve for curve in curves if curve is not None]
        return self.model_copy(
            update={
                "train": tuple((curve,) for curve in kept if not curve.is_judged),
                "test": tuple((curve,) for curve in kept if curve.is_judged),
            }
        )

    @property
    def _drawn_from(self) -> list[tuple[Curve, int]]:
        given = [curve for curve in self.curves if curve.is_judged and not curve.mix]
        every = [(curve, workers) for curve in given for workers in curve.workers]
        return [(curve, workers) for curve, workers in every if workers > 1] or every

    def traced(self, folder: Path) -> "Study":
        """Return this study with its models of Hugging Face traced, as `predict` traces them.

        Args:
            folder: in which paths of configs begin.

        Raises:
            ValueError: naming the template of a model that cannot be.
        """
        by_target, traced = defaultdict[str, list[Curve]](list), dict[Curve, Curve]()
        for curve in self.curves:
            if curve.dnn.startswith(PREFIX):
                target = as_trained(curve.dnn, sequence_length=curve.sequence_length)
                by_target[target].append(curve)
        for target, curves in by_target.items():
            sizes = list(dict.fromkeys(curve.batch_size for curve in curves))
            with tracing(target, sizes, folder, gpu_precisions=gpu_precisions(curves)) as made:
                try:
                    model = made()
                except NoGraph as error:
                    raise ValueError(f"{self.place_of(curves[0])}.dnn: {error}") from None
            register_own_model(model, (target, str(folder)))
            for curve in curves:
                traced[curve] = curve.model_copy(update=model.workload_fields)
                if lacks := traced[curve].lacking_precision():
                    raise ValueError(f"{self.place_of(curve)}.dnn: {lacks}")
                if curve.memory_format == "channels_last" and model.image_size <= 1:
                    raise ValueError(
                        f"{self.place_of(curve)}.memory_format: {curve.dnn} sees no images; leave "
                        "it out"
                    )
        if not traced:
            return self
        templates = {
            name: tuple(tuple(traced.get(curve, curve) for curve in each) for each in given)
            for name, given in (("train", self.train), ("test", self.test))
        }
        # Two configs may be of one model.
        return self.model_copy(update=templates).each_scenario_once()  # type: ignore[operator]

    def curve_of(self, scenario: Scenario, backend: Backend) -> Curve:
        """Return the curve that a scenario belongs to."""
        return next(curve for curve in self.curves if scenario in curve.scenarios(backend))


def read_study(path: Path, *, traces: bool = True) -> Study:
    """Read a study file; models of Hugging Face are networks by the names of their steps.

    Without `traces` they are what the file says, for whoever wants the study's name alone.

    Raises:
        BadInput: as `read_record`, or it has a name that the fleet gives its own.
    """
    with error_context(f"{path}", ValueError):
        study = read_record(path, Study, "study")
        study = study.traced(path.parent.resolve()) if traces else study
    if study.name.startswith(OF_FLEET):
        raise BadInput(
            f"{path}: name: {study.name!r} is a name of the fleet's own studies; do not begin it "
            f"with {' or '.join(OF_FLEET)}"
        )
    return study
