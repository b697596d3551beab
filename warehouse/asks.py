"""What a forecast of a scenario rests on, as data that systems make and studies meet."""

from dataclasses import dataclass
from typing import Literal

from warehouse.records import Scenario

Whose = Literal["own", "train", "cluster"]


@dataclass(frozen=True)
class Ask:
    """Runs of a probe that a forecast rests on.

    Attributes:
        probe: as its runs have landed.
        whose: `own`: of the scenario that is forecast, as profiled; `train`: of all scenarios that
            fits may see; `cluster`: of the nodes and links that it trains on, and is profiled on.
        scenario: own: what is profiled. Else the scenario that is forecast.
        optional: a study without such runs does too.
        on_its_link: a profile on a link of another speed does not do.
    """

    probe: str
    whose: Whose
    scenario: Scenario
    optional: bool = False
    on_its_link: bool = False


@dataclass(frozen=True)
class Refusal:
    """Why a system says nothing of a scenario.

    `foreign`: the system is about other training altogether, so that reports need not mention it.
    """

    reason: str
    foreign: bool = False
