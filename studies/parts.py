"""Parts of a study file: templates of scenarios, and what is repeated."""

from collections.abc import Iterable
from functools import partial
from typing import Annotated

from pydantic import BeforeValidator, Field

from studies.curve import Curve, expand
from warehouse.records import BadInput, Record, Scenario

Train = Annotated[tuple[Curve, ...], BeforeValidator(partial(expand, judged=False))]
Test = Annotated[tuple[Curve, ...], BeforeValidator(partial(expand, judged=True))]
"""The curves of a template."""


class Again(Record):
    """What rounds after the first repeat: a fraction of test scenarios with W >= 2, by seed.

    With `profiles` they are profiled anew too; without, forecasts rest on the profiles that there
    are, and only what judges them is measured again.
    """

    fraction: float = Field(default=1.0, gt=0, le=1, allow_inf_nan=False)
    seed: int = 0
    profiles: bool = True


def repeated(curve: Curve, chosen: Iterable[tuple[Curve, int]]) -> Curve | None:
    """Return what is chosen of a curve, None if nothing is; all of one that fits may see."""
    if not curve.is_judged:
        return curve
    workers = tuple(sorted(workers for one, workers in chosen if one == curve))
    return curve.model_copy(update={"workers": workers}) if workers else None


def known_scenarios(curve: Curve) -> tuple[Scenario, ...]:
    """Return what a curve is of; nothing where node types are unknown on this host.

    Those are refused with their field where a study is checked (`studies.checks`).
    """
    try:
        return curve.scenarios("emulated")
    except BadInput:
        return ()
