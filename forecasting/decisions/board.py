"""Decisions on what has been measured: what each system, and rules of thumb, would have rented.

Questions follow a rule and a seed. A menu is all that a round measured, on a host that was not
busy, of one network, image size, batch of a device and link: node types and numbers of workers and
servers. A job of a million samples is asked about on each, `QUESTIONS` times for the least cost by
a deadline and as often for the least time on a budget; the limit is drawn between the best and the
worst that was measured, as likely in each of equal parts of its logarithm. Whoever chooses sees
forecasts that were in the ledger before the first run of their scenario was loaded, and errors that
were known before the menu's first run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import exp, log
from random import Random
from typing import Any

import polars as pl

from forecasting.decisions.candidates import Evidence, Ranked, most_trusted, train_s, training_key
from models.choice.candidates import Candidate
from models.choice.choice import Aim, best, rules_of_thumb
from models.choice.limits import Limits, Objective
from models.choice.overheads import ExpectedDuration
from warehouse.home import code_version
from warehouse.records import Scenario, content_hash
from warehouse.warehouse import Warehouse

SEED = 34
QUESTIONS = 3
SAMPLES = 1_000_000
LATE = 0.1
_MENU = (
    "study",
    "repeat",
    "backend",
    "host_id",
    "framework",
    "strategy",
    "dnn",
    "image_size",
    "batch_size",
    "link_mbps",
)
_FEWEST = 3
"""Options that a menu has at least."""


@dataclass(frozen=True)
class Menu:
    """What one round measured of one network, to choose from; rows are of query menus."""

    key: Mapping[str, Any]
    rows: pl.DataFrame
    scenarios: Mapping[str, Scenario]

    @property
    def first_run_at(self) -> datetime:
        """When the first of its runs began."""
        first_at = self.rows["measured_at"].min()
        assert isinstance(first_at, datetime)
        return first_at

    def measured(self, what: Objective) -> list[float]:
        """Return hours, or US dollars, that the job took on each of its options."""
        amounts = []
        for row in self.rows.unique("scenario_id", maintain_order=True).to_dicts():
            scenario = self.scenarios[row["scenario_id"]]
            hours = train_s(scenario, row["metric"], row["measured"], SAMPLES) / 3600
            amounts.append(hours if what == "time" else hours * row["usd_per_hour"])
        return amounts


def decisions(warehouse: Warehouse, seed: int = SEED, questions: int = QUESTIONS) -> pl.DataFrame:
    """Let every system and rule decide about every menu; return rows of pred.decision.

    Args:
        warehouse: the history.
        seed: of the limits.
        questions: of each kind about each menu.
    """
    past = warehouse.query("time_ratios")
    rows = [
        row
        for menu in menus(warehouse.query("menus"))
        for aim in aims(menu, seed, questions)
        for row in decide_menu(menu, aim, past, seed)
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def menus(rows: pl.DataFrame) -> Iterator[Menu]:
    """Yield menus of at least three options, of equal workers each, in a fixed order."""
    known = {
        name: Scenario.model_validate_json(text)
        for name, text in rows.select("scenario_id", "canonical").unique().iter_rows()
    }
    equal = [name for name, scenario in known.items() if len(scenario.worker_groups) == 1]
    options = rows.filter(pl.col("scenario_id").is_in(equal)).sort("scenario_id", "system")
    for key, menu_rows in options.group_by(_MENU, maintain_order=True):
        names = menu_rows["scenario_id"].unique()
        if len(names) >= _FEWEST:
            scenarios = {name: known[name] for name in names}
            yield Menu(dict(zip(_MENU, key, strict=True)), menu_rows, scenarios)


def aims(menu: Menu, seed: int, questions: int) -> Iterator[Aim]:
    """Yield what is wanted of a menu's job: limits between the best and the worst measured."""
    random = Random(f"{seed} {sorted(menu.key.items())}")
    for _ in range(questions):
        hours = _between(menu.measured("time"), random)
        yield Aim("cost", Limits(deadline_s=3600 * hours))
        yield Aim("time", Limits(budget_usd=_between(menu.measured("cost"), random)))


def _between(values: Sequence[float], random: Random) -> float:
    return exp(random.uniform(log(min(values)), log(max(values))))


def decide_menu(menu: Menu, aim: Aim, past: pl.DataFrame, seed: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each system, rule, and how sure limits have to be."""
    known = past.filter(pl.col("measured_at") < menu.first_run_at, backend=menu.key["backend"])
    question = _question(menu, aim, seed)
    for late in (None, LATE):
        wanted = Aim(aim.minimize, aim.limits, late)
        everything = candidates(menu, Evidence(known, late, other_day=False))
        by_system: dict[str, list[Candidate]] = {}
        for _, candidate in everything:
            by_system.setdefault(candidate.system, []).append(candidate)
        by_system["recommend"] = most_trusted(everything)
        for chooser, options in by_system.items():
            if len(options) > 1:
                yield _row(question, chooser, late, best(options, wanted))
        if late is None:
            options = by_system["recommend"]
            alone = any(candidate.workers == 1 for candidate in options)
            for rule, chosen in rules_of_thumb(options, wanted).items():
                # Linear scaling declines where it knows what one node does.
                if chosen is not None or alone:
                    yield _row(question, rule, None, chosen)


def candidates(menu: Menu, evidence: Evidence) -> list[Ranked]:
    """Return what each system forecasts of each option, with how little it is trusted."""
    ranked: list[Ranked] = []
    per_worker = usd_per_worker_hour(menu)
    for place, row in enumerate(menu.rows.to_dicts()):
        errors = evidence.errors(row["system"], row["split"], row["metric"])
        scenario = menu.scenarios[row["scenario_id"]]
        (group,) = scenario.worker_groups
        candidate = Candidate(
            key=scenario.scenario_id,
            label=scenario.label,
            system=row["system"],
            training=training_key(scenario),
            node_types=(group.node_type,),
            workers=group.count,
            market="on_demand",
            usd_per_hour=row["usd_per_hour"],
            usd_per_worker_hour=per_worker[group.node_type],
            train_s=train_s(scenario, row["metric"], row["predicted"], SAMPLES),
            expected=ExpectedDuration(0.0, 1.0, None),
            ratios=errors.ratios,
        )
        ranked.append(((*errors.rank, place), candidate))
    return ranked


def usd_per_worker_hour(menu: Menu) -> Mapping[str, float]:
    """Return what a worker of each type costs: by how much one more of them makes nodes dearer.

    Where only one number of workers was measured, servers are counted in.
    """
    costs: dict[str, dict[tuple[int, int], float]] = {}
    for scenario_id, usd in menu.rows.select("scenario_id", "usd_per_hour").unique().iter_rows():
        scenario = menu.scenarios[scenario_id]
        (group,) = scenario.worker_groups
        at = scenario.strategy.servers, group.count
        costs.setdefault(group.node_type, {})[at] = usd
    usd_by_type = {}
    for node_type, by_count in costs.items():
        servers = min(count for count, _ in by_count)
        same = [workers for count, workers in by_count if count == servers]
        fewest, most = min(same), max(same)
        if most > fewest:
            more = by_count[servers, most] - by_count[servers, fewest]
            usd_by_type[node_type] = more / (most - fewest)
        else:
            usd_by_type[node_type] = by_count[servers, most] / most
    return usd_by_type


def _question(menu: Menu, aim: Aim, seed: int) -> dict[str, Any]:
    options = menu.rows.unique("scenario_id", maintain_order=True)
    limits = aim.limits
    question = {
        **menu.key,
        "samples": SAMPLES,
        "minimize": aim.minimize,
        "max_hours": None if limits.deadline_s is None else limits.deadline_s / 3600,
        "budget_usd": limits.budget_usd,
        "seed": seed,
        "options": options["scenario_id"].to_list(),
        "usd_per_hour": options["usd_per_hour"].to_list(),
    }
    return {"question_id": content_hash(repr(sorted(question.items()))), **question}


def _row(
    question: Mapping[str, Any], chooser: str, late: float | None, choice: Candidate | None
) -> dict[str, Any]:
    return {
        **question,
        "chooser": chooser,
        "late": late,
        "choice": None if choice is None else choice.key,
        "code_version": code_version(),
        "made_at": datetime.now(UTC),
    }
