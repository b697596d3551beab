"""The runs that forecasts may rest on when no study has chosen them: all that are visible."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from json import loads
from typing import cast

import polars as pl

from models.predictddl.known import are_enough
from warehouse.asks import Ask, Subject, serves
from warehouse.records import Backend, Scenario
from warehouse.warehouse import Warehouse

_TOLD_APART_BY = ("worker", "devices_per_node", "world_size")
"""What the config of a run about nodes names; the rest of it is how they were measured."""
CALIBRATING = "calibrate."
"""How studies are called whose runs correct forecasts (`stepcast predict --calibrate one-node`)."""
Round = tuple[str, int]
"""A study and the number of a round."""


@dataclass(frozen=True)
class VisibleRun:
    """A profile run that predictors may see, and what it is about."""

    run_id: str
    subject: Subject
    round: Round
    backend: Backend
    host_id: str
    started_at: datetime

    @property
    def exchanges(self) -> bool:
        """Whether it is of several devices: training, or an all-reduce."""
        scenario = self.subject.scenario
        if scenario is None:
            return "world_size" in self.subject.config
        return scenario.strategy.workers * scenario.strategy.devices_per_node > 1

    @property
    def key(self) -> object:
        """What runs share of which the newest counts."""
        about = self.subject
        if about.scenario is not None:
            return self.host_id, about.probe, about.scenario
        config = tuple(sorted(about.config.items()))
        return self.host_id, about.probe, about.link_mbps, config


@dataclass(frozen=True)
class Met:
    """The runs that meet what a forecast asks for, the newest first, and asks that none meets."""

    runs: tuple[VisibleRun, ...]
    lacking: tuple[Ask, ...]

    @property
    def rounds(self) -> frozenset[Round]:
        """The rounds that they are of."""
        return frozenset(run.round for run in self.runs)


def visible_runs(warehouse: Warehouse, known_by: datetime | None = None) -> tuple[VisibleRun, ...]:
    """Return all runs that fits may rest on (`fitted_to`), the newest first.

    Those that started after `known_by` are left out.
    """
    tables = warehouse.visible_tables(["run", "scenario"])
    canonical = dict(tables["scenario"].select("run_id", "canonical").iter_rows())
    rows = fitted_to(tables["run"]).sort("started_at", "run_id")
    if known_by is not None:
        rows = rows.filter(pl.col("started_at") <= known_by)
    scenario = cache(Scenario.model_validate_json)
    return tuple(
        VisibleRun(
            run_id=row["run_id"],
            subject=_subject(row["probe"], loads(row["config"]), text and scenario(text)),
            round=(row["study"], row["repeat"]),
            backend=cast(Backend, row["backend"]),
            host_id=row["host_id"],
            started_at=row["started_at"],
        )
        for row in reversed(rows.to_dicts())
        for text in [canonical.get(row["run_id"])]
    )


def fitted_to(runs: pl.DataFrame) -> pl.DataFrame:
    """Return visible runs without those of imported files and those that only correct forecasts."""
    corrects = pl.col("study").str.starts_with(CALIBRATING)
    return runs.filter(~corrects, pl.col("backend") != "imported")


def met(asks: Sequence[Ask], runs: Sequence[VisibleRun]) -> Met:
    """Return the runs that meet what a forecast asks for.

    Of asks that are not about `train` scenarios the newest round counts that meets all which are
    not optional, so that days are not mixed. Where no round does, each ask is met by the newest
    round that can. Of runs about the same thing the newest counts.

    Args:
        asks: as a system makes them, on the links of profiles.
        runs: that are visible, of one backend and host, the newest first.
    """
    of_train = [ask for ask in asks if ask.whose == "train"]
    others = [ask for ask in asks if ask.whose != "train"]
    needed = [ask for ask in others if not ask.optional]
    serving = {ask: [run for run in runs if _serves(run, ask)] for ask in dict.fromkeys(asks)}
    rounds = _shared([[run.round for run in serving[ask]] for ask in needed])
    found: list[VisibleRun] = []
    for ask in others:
        ours = serving[ask]
        of_round = rounds[0] if rounds else next((run.round for run in ours), None)
        if rounds or not ask.optional:
            found += [run for run in ours if run.round == of_round]
    for ask in of_train:
        found += serving[ask]
    lacking = tuple(ask for ask in asks if not ask.optional and not serving[ask])
    return Met(newest_of_each(found), lacking)


def described(
    asks: Sequence[Ask],
    found: Met,
    runs: Sequence[VisibleRun],
    elsewhere: Sequence[VisibleRun],
) -> Met:
    """Return what a forecast rests on whose system knows nodes by what they can do.

    Steps of `train` scenarios count with the inventories of their nodes and of the nodes that are
    asked about. Where this host has few such steps, those of other hosts count too, but only on
    nodes of which that host has an inventory; then this host has to have one as well.

    Args:
        asks: as of `met`; those of a `cluster` are of inventories.
        found: what meets them here.
        runs: visible runs of this host.
        elsewhere: visible runs of the backend's other hosts.
    """
    of_steps = {ask.probe for ask in asks if ask.whose == "train"}
    of_nodes = [ask for ask in asks if ask.whose == "cluster"]
    inventories = {ask.probe for ask in of_nodes}
    types = {one.node_type for ask in of_nodes for one in ask.scenario.worker_groups}
    ours = [run for run in runs if run.subject.probe in inventories]
    there = {node_type for run in ours for node_type in run.subject.worker_types}
    steps = [run for run in found.runs if run.subject.probe in of_steps]
    known = {
        (run.host_id, node_type)
        for run in elsewhere
        if run.subject.probe in inventories
        for node_type in run.subject.worker_types
    }
    others = [run for run in elsewhere if run.subject.probe in of_steps and _nodes(run) <= known]
    trained = [run.subject.scenario for run in steps if run.subject.scenario is not None]
    if are_enough(trained) or (steps and not types <= there):
        others = []
    elif others:
        # What nodes without an inventory can do is a guess, which would look like a difference.
        guessed = [run for run in steps if not run.subject.worker_types <= there]
        found = Met(tuple(run for run in found.runs if run not in guessed), found.lacking)
    if not steps and not others:
        return found
    wanted = types.union(*(run.subject.worker_types for run in steps))
    nodes = set[tuple[str, str]]().union(*map(_nodes, others))
    own = [run for run in ours if run.subject.worker_types <= wanted]
    theirs = [run for run in elsewhere if run.subject.probe in inventories and _nodes(run) <= nodes]
    lacking = [ask for ask in found.lacking if ask.whose != "train"]
    lacking += of_nodes if others and not types <= there else []
    return Met(newest_of_each([*found.runs, *own, *others, *theirs]), tuple(dict.fromkeys(lacking)))


def _nodes(run: VisibleRun) -> set[tuple[str, str]]:
    return {(run.host_id, node_type) for node_type in run.subject.worker_types}


def newest_of_each(runs: Iterable[VisibleRun]) -> tuple[VisibleRun, ...]:
    """Return the newest run about each thing, the newest first."""
    by_key: dict[object, VisibleRun] = {}
    for run in sorted(runs, key=_age, reverse=True):
        by_key.setdefault(run.key, run)
    return tuple(by_key.values())


def _shared(rounds: Sequence[Sequence[Round]]) -> list[Round]:
    """Return the rounds that are in every list, in the order of the first."""
    first, *others = rounds or [[]]
    return [one for one in first if all(one in several for several in others)]


def _age(run: VisibleRun) -> tuple[datetime, str]:
    return run.started_at, run.run_id


def _serves(run: VisibleRun, ask: Ask) -> bool:
    """Tell whether a run is what is asked for; of nodes, with as many devices each."""
    if not serves(run.subject, ask):
        return False
    each = run.subject.config.get("devices_per_node")
    return ask.whose != "cluster" or each in (None, ask.scenario.strategy.devices_per_node)


def _subject(
    probe: str, config: Mapping[str, str | int | float | None], scenario: Scenario | str | None
) -> Subject:
    if isinstance(scenario, Scenario):
        return Subject(probe, scenario, scenario.link_mbps)
    speed = config.get("link_mbps")
    return Subject(
        probe,
        None,
        None if speed is None else float(speed),
        dict(_known(config)),
    )


def _known(config: Mapping[str, str | int | float | None]) -> Iterator[tuple[str, str | int]]:
    for name in _TOLD_APART_BY:
        value = config.get(name)
        if isinstance(value, str | int):
            yield name, value
