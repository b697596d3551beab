"""Needs of probes that measure whole scenarios: all nodes train."""

from collections.abc import Callable, Hashable, Iterator

from profilers.probe import Asked, Need, Settings, start_s
from warehouse.asks import Subject
from warehouse.records import NodeGroup, Purpose, Scenario


def needs_of_whole(
    probe: str,
    asked: Asked,
    settings: Settings,
    expected_s: Callable[[Scenario], float],
    start: Callable[[Scenario], Hashable],
    nodes: Callable[[Scenario], tuple[NodeGroup, ...]] = lambda scenario: scenario.nodes,
) -> Iterator[Need]:
    """Yield scenarios for fits to see, own and train ones, then test ones to judge forecasts by.

    Args:
        probe: its name.
        asked: what a study asks of it.
        settings: of each run.
        expected_s: of a run of a scenario, beside the start of programs.
        start: what scenarios share that one start of programs can measure.
        nodes: those that measure a scenario.
    """
    parts: tuple[tuple[tuple[Scenario, ...], Purpose, bool], ...] = (
        (asked.train, "profile", True),
        (tuple(one for one in asked.own if one not in asked.train), "profile", False),
        (asked.test, "measurement", False),
    )
    for scenarios, purpose, of_train in parts:
        for scenario in dict.fromkeys(scenarios):
            yield Need(
                Subject(probe, scenario, scenario.link_mbps),
                purpose,
                f"measure {scenario.label}",
                nodes(scenario),
                settings,
                expected_s=expected_s(scenario),
                start=start(scenario),
                start_s=start_s(scenario.nodes),
                of_train=of_train,
            )
