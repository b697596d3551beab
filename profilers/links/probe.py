"""Probe `links`: what 1..n simultaneous flows between the server and the workers really get.

Flow i runs between server 0 and worker i, as in training; iperf3 counts goodput, so TCP and IP
headers are already taken off.
"""

import itertools
import json
import subprocess
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import polars as pl
from pydantic import Field, field_validator

from profilers.clusters import Cluster, Node
from profilers.clusters.node_types import node_group
from profilers.probe import (
    Measured,
    PlannedRun,
    Probe,
    RequestedScenarios,
    Session,
    Setting,
    one_by_one,
)
from profilers.scenarios import largest, take_turns
from profilers.steady.host import Patience
from warehouse import limits
from warehouse.fields import Nodes, Repeats, Seconds
from warehouse.records import BadInput, NodeGroup, ProbeFailed, Record, Scenario
from warehouse.requirements import Subject

RAMP_S = 0.5
"""Start of each flow that is not counted: TCP slow start."""
DIRECTIONS = ("downlink", "uplink")
_OVERHEAD_S = 1.5
"""First guess of what a trial takes beside its counted seconds."""
LEAST_GOODPUT = 0.5
"""The share of a shaped link's speed below which the host, not the link, was measured."""


def _measure(session: Session, need: PlannedRun) -> Measured:
    """Measure goodput in each direction for each number of simultaneous flows.

    Raises:
        ProbeFailed: iperf3 failed, or flows got less than half of a shaped link together.
    """
    settings, cluster = Settings(**need.settings), session.cluster
    workers = cluster.of_role("worker")
    patience = Patience(cluster.cpu_times)
    rows: list[dict[str, Any]] = []
    reports: list[Any] = []
    trials = range(settings.trials)
    for trial, direction, count in itertools.product(trials, DIRECTIONS, settings.flows):
        session.say(f"probe links: {direction}, {count} flow(s), trial {trial + 1}")
        trial_of = partial(simultaneous, cluster, workers[:count], direction, settings.seconds)
        flows = patience.measure_undisturbed(trial_of).value
        reports += flows
        key = {"direction": direction, "flows": count, "trial": trial}
        rows += [{**key, "flow": i, **received_goodput(each)} for i, each in enumerate(flows)]
    table = pl.DataFrame(rows)
    _check_goodput(table, cluster.link_mbps, patience.stolen)
    artefact = session.scratch / "iperf3.json"
    artefact.write_text(json.dumps(reports))
    config: dict[str, Setting] = {
        "between": " + ".join(sorted({worker.group.node_type for worker in workers})),
        "seconds": settings.seconds,
        "trials": settings.trials,
        "ramp_s": RAMP_S,
        "stolen_cpu_fraction": round(patience.stolen, 4),
    }
    return Measured({"link": table}, config, {artefact.name: artefact})


def sum_simultaneous(table: pl.DataFrame) -> pl.DataFrame:
    """Return direction, flows, trial and mbps: the goodput of all flows of each trial."""
    return table.group_by("direction", "flows", "trial", maintain_order=True).agg(
        mbps=pl.col("bandwidth_Bps").sum() * 8e-6
    )


def _check_goodput(table: pl.DataFrame, link_mbps: float | None, stolen: float) -> None:
    """Refuse links that carry much less than they are shaped to."""
    if link_mbps is None:
        return
    slowest = sum_simultaneous(table).sort("mbps", maintain_order=True).row(0, named=True)
    if slowest["mbps"] < LEAST_GOODPUT * link_mbps:
        raise ProbeFailed(
            f"{slowest['direction']}, {slowest['flows']} flow(s): {slowest['mbps']:.0f} Mb/s on "
            f"links shaped to {link_mbps:g}, while {100 * stolen:.0f} % of the host's processor "
            "time was stolen; run again when the host is quiet, or with slower links"
        )


def simultaneous(
    cluster: Cluster, workers: Sequence[Node], direction: str, seconds: float
) -> list[Any]:
    """Run one flow per worker at the same time, each with server 0; return iperf3's reports.

    Raises:
        ProbeFailed: iperf3 failed or did not end.
    """
    server = cluster.of_role("server")[0]
    ports = [listen(cluster, server)[1] for _ in workers]
    length = ["--time", f"{seconds:g}", "--omit", f"{RAMP_S:g}", "--json"]
    reverse = ["--reverse"] if direction == "downlink" else []
    clients = [
        cluster.popen(
            worker, ["iperf3", "--client", server.address, "--port", port, *length, *reverse]
        )
        for worker, port in zip(workers, ports, strict=True)
    ]
    return [_report(client, timeout_s=seconds + 20) for client in clients]


def listen(cluster: Cluster, server: Node, *options: str) -> "tuple[subprocess.Popen[str], str]":
    """Start an iperf3 server for one client; return it and its port once it listens."""
    port = str(cluster.free_port(server))
    listener = cluster.popen(
        server, ["iperf3", "--server", "--one-off", "--forceflush", *options, "--port", port]
    )
    assert listener.stdout is not None
    for line in listener.stdout:
        if "listening" in line:
            return listener, port
    raise ProbeFailed("an iperf3 server ended before it listened")


def _report(client: "subprocess.Popen[str]", timeout_s: float) -> Any:
    try:
        text, _ = client.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise ProbeFailed(f"iperf3 did not end within {timeout_s:g} s") from None
    report = json.loads(text or "{}")
    if client.returncode or "error" in report:
        raise ProbeFailed(f"iperf3 failed: {report.get('error', f'exit {client.returncode}')}")
    return report


def received_goodput(report: Any) -> dict[str, Any]:
    """Return one flow's goodput as the receiver counted it, of iperf3's report."""
    counted, sent = report["end"]["sum_received"], report["end"]["sum_sent"]
    return {
        "seconds": counted["seconds"],
        "bytes": counted["bytes"],
        "bandwidth_Bps": counted["bits_per_second"] / 8,
        "retransmits": sent.get("retransmits"),
    }


class Settings(Record):
    """Numbers of simultaneous flows (none: one, and as many as train), counted seconds, repeats."""

    flows: tuple[Nodes, ...] = Field(default=(), max_length=limits.LISTED)
    seconds: Seconds = 2
    trials: Repeats = 2

    @field_validator("flows")
    @classmethod
    def _single_flow_is_among_them(cls, flows: tuple[int, ...]) -> tuple[int, ...]:
        if flows and 1 not in flows:
            raise ValueError(f"should be 1 or more each and hold 1, found {list(flows)}")
        return tuple(sorted(set(flows)))

    @field_validator("seconds")
    @classmethod
    def _iperf3_counts_whole_ones(cls, seconds: float) -> float:
        if seconds % 1:
            raise ValueError(f"should be whole, as iperf3 counts them, found {seconds:g}")
        return seconds


def _needs(requested: RequestedScenarios, settings: Settings) -> Iterator[PlannedRun]:
    """Yield each speed of links once, between the nodes of the largest scenario that has it."""
    for speed in dict.fromkeys(scenario.link_mbps for scenario in requested.cluster):
        scenario = largest(
            candidate for candidate in requested.cluster if candidate.link_mbps == speed
        )
        flows = settings.flows or tuple(sorted({1, scenario.strategy.workers}))
        seconds = 2 * len(flows) * settings.trials * (settings.seconds + _OVERHEAD_S)
        yield PlannedRun(
            Subject("links", None, speed),
            "profile",
            f"probe links, {link_in_words(speed)}",
            _between(scenario, max(flows)),
            settings.model_dump() | {"flows": flows},
            expected_s=seconds,
            starts_programs=False,
        )


def check_flows(requested: RequestedScenarios, needs: Sequence[PlannedRun]) -> None:
    """Refuse more flows on links of a speed than any scenario on them has workers.

    Raises:
        BadInput: naming the setting.
    """
    for need in needs:
        speed, flows = need.subject.link_mbps, max(need.settings["flows"])
        most = largest(candidate for candidate in requested.cluster if candidate.link_mbps == speed)
        if flows > most.strategy.workers:
            raise BadInput(
                f"flows: {flows} simultaneous flows, but {most.workload.dnn} on links of "
                f"{link_in_words(speed)} has at most {most.strategy.workers} workers; use fewer "
                "flows"
            )


def link_in_words(link_mbps: float | None) -> str:
    """Return the speed of links as progress and plans have it."""
    return "unshaped" if link_mbps is None else f"{link_mbps:g} Mb/s"


def _between(scenario: Scenario, flows: int) -> tuple[NodeGroup, ...]:
    """Return a worker for each flow, and a server: one more node where training has none."""
    groups = take_turns(scenario.nodes, flows)
    if scenario.strategy.servers:
        return groups
    return (*groups, node_group("server", groups[0].node_type, 1))


PROBE = Probe(
    name="links",
    what="Goodput of 1 to n simultaneous flows between the server and the workers, each direction.",
    kind="iperf3",
    tables=("link",),
    settings=Settings,
    needs=_needs,
    run=one_by_one(_measure),
    essential=frozenset({"flows"}),
    check=lambda requested, needs, backend: check_flows(requested, needs),
)
