"""`stepcast train`: training that goes on when nodes are taken away."""

import select
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.errors import interruptible
from pipelines.cli.money import MaxUsd, Yes, exit_on_signals, renting
from pipelines.cli.tables import print_text, tell
from profilers.clusters import choose_backend
from warehouse.home import home
from warehouse.records import StepcastError

if TYPE_CHECKING:
    from pipelines.runtime import IfInfeasible
    from pipelines.runtime.attempt import AnswerPolicy
    from pipelines.runtime.job_store import EventLogEntry
    from pipelines.runtime.plan import Infeasible, LimitRelaxation
    from pipelines.runtime.state import JobState
    from profilers.renting.cap import Allowance

_PATIENCE_S = 600.0
"""How long a question waits for an answer while nodes cost money."""


def train(
    job: Annotated[Path, typer.Argument(help="A job file (docs/srift-runtime.md).")],
    max_usd: MaxUsd = None,
    yes: Yes = False,
) -> None:
    """Train on nodes that Srift chooses, anew when one is taken away.

    The same command goes on from the last checkpoint of a job that was interrupted or killed.
    Where its nodes are rented (backend ec2), --max-usd says what they may cost, whatever happens.

    Example: stepcast train studies/training/demo.yaml
    """
    from pipelines.runtime import attempt
    from pipelines.runtime.job_file import read_job, read_performance
    from studies.renting import check_capped

    given = read_job(job)
    answer = answerer(given.if_infeasible)
    with interruptible(
        f"stopped, and everything torn down; `stepcast train {job}` goes on from the last "
        "checkpoint"
    ):
        backend, why = choose_backend(given.backend)
        tell(f"backend {backend}: {why}")
        check_capped(backend, max_usd)
        performance = read_performance(given, backend, home())
        types = {offer.node_type for offer in given.offers}

        def estimate(may: "Allowance") -> str:
            for offer in given.offers:
                may.rate(offer.node_type, offer.market)
            budget = "" if given.budget_usd is None else f"its budget is ${given.budget_usd:g}; "
            return (
                f"job {given.name} rents nodes as it goes: {budget}at most ${may.cap_usd:g} in all"
            )

        with exit_on_signals(), renting(home(), max_usd, backend, types, estimate, yes=yes):
            keeper, state = attempt.train(
                given, performance, backend, home(), _tell, answer, waiting=tell
            )
    print_text(f"checkpoints and story  {keeper.folder}")
    print_text("`stepcast load` brings what happened into the history (raw.runtime_event)")
    if state.error is not None:
        raise StepcastError(f"job {given.name}: {state.error}")


def _tell(entry: "EventLogEntry") -> None:
    """Print what happened."""
    what = [entry.event, *(name for name in (entry.node, entry.node_type) if name)]
    if entry.step is not None:
        what.append(f"at iteration {entry.step}")
    facts = [
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in entry.detail.items()
        if value is not None
    ]
    tell(f"[{entry.at_s:7.1f} s] {' '.join(what)}{': ' if facts else ''}{', '.join(facts)}")


def answerer(policy: "IfInfeasible") -> "AnswerPolicy":
    """Return who says what happens where nothing is feasible: the user, if there, or a policy."""

    def answer(infeasible: "Infeasible", state: "JobState") -> "LimitRelaxation | None":
        if policy == "ask" and sys.stdin.isatty():
            return _asked(infeasible, state)
        return infeasible.way(policy)

    return answer


def _asked(infeasible: "Infeasible", state: "JobState") -> "LimitRelaxation | None":
    hourly_usd = sum(node.usd_per_hour for node in state.nodes)
    print_text(f"{infeasible.reason}; {len(state.nodes)} nodes wait at ${hourly_usd:.2f} per hour")
    print_text("  0  abort; the last checkpoint stays")
    for number, way in enumerate(infeasible.ways, start=1):
        print_text(f"  {number}  {way.text}")
    number = -1
    try:
        while not 0 <= number <= len(infeasible.ways):
            if state.nodes:
                print_text("your choice, and Enter:")
                if not select.select([sys.stdin], [], [], _PATIENCE_S)[0]:
                    minutes = _PATIENCE_S / 60
                    print_text(f"nobody answered for {minutes:g} min while nodes wait: abort")
                    return None
            number = typer.prompt(f"0 to {len(infeasible.ways)}", type=int)
    except typer.Abort:
        # Ctrl-C, or the end of the input.
        raise KeyboardInterrupt from None
    return infeasible.ways[number - 1] if number else None
