"""`stepcast recommend`, from its options to what is printed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models.choice.overheads import Overheads
from pipelines.cli.pictures import check_picture, write_picture
from pipelines.cli.tables import print_text
from pipelines.cli.workload import (
    as_json,
    build_own_model,
    check_length,
    check_options,
    in_words,
    is_target,
)
from warehouse import limits
from warehouse.records import Backend, BadInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from forecasting.decisions.question import JobQuestion
    from models.choice.offers import Markets
    from networks.own_model import OwnModel
    from warehouse.warehouse import Warehouse

Job = tuple[int | None, int | None, float | None, int | None]
"""Samples, steps, epochs, and samples of an epoch."""
_UNSURE = 0.1
_NETWORK = "a network (`stepcast networks` lists them)"


@dataclass(frozen=True)
class RentalOptions:
    """What can be rented, and as of when, None: now; on which backend, None: any."""

    capacity: Mapping[str, int]
    market: "Markets"
    as_of: datetime | None
    backend: Backend | None


@dataclass(frozen=True)
class OutputOptions:
    """How an answer is shown: as JSON or in words, with the Pareto front, and drawn to a file."""

    as_json: bool
    front: bool
    picture: Path | None


def recommend_by_forecasts(
    options: Mapping[str, Any],
    of_answers: Mapping[str, Any],
    job: Job,
    rented: RentalOptions,
    warehouse: "Warehouse",
    shown: OutputOptions,
) -> None:
    """Ask all systems about every way to run the job, and print the answer.

    Raises:
        BadInput: as `forecasting.decisions.answer.answer`, or options contradict each other.
    """
    from forecasting.decisions.answer import answer
    from forecasting.inputs import systems_named
    from pipelines.cli.answered import print_decision
    from pipelines.cli.answered_json import print_json

    check_picture(shown.picture)
    check_capacity(rented.capacity)
    if of_answers["--preemptions"] is not None and rented.market == "on_demand":
        raise BadInput("--preemptions: nodes on demand are not taken away; give --market spot, any")
    names = of_answers["--systems"]
    systems = systems_named([] if names is None else [one.strip() for one in names.split(",")])
    question, model = _with_model(_question(options, of_answers, job), rented, of_answers)
    found = answer(
        warehouse,
        question,
        rented.capacity,
        rented.market,
        systems,
        as_of=rented.as_of,
        backend=rented.backend,
        host=of_answers["--host"],
        say=_say,
    )
    target = options["dnn"]
    if shown.as_json:
        print_json(found, None if model is None else as_json(target, model))
    else:
        if model is not None:
            print_text(in_words(target, model))
        print_decision(found, with_front=shown.front)

    def drawn() -> "Figure":
        from reports.recommendation_plot import of_all_systems

        return of_all_systems(found)

    write_picture(shown.picture, drawn, told=not shown.as_json)


def _question(options: Mapping[str, Any], of_answers: Mapping[str, Any], job: Job) -> "JobQuestion":
    from forecasting.decisions.question import JobQuestion, samples_of

    global_batch, batch_size = options["global_batch"], of_answers["--batch-size"]
    if (global_batch is None) == (batch_size is None):
        raise BadInput("expected --global-batch (of all nodes together) or --batch-size (of each)")
    server, servers = _server(of_answers["--server"])
    if server is not None and batch_size is None:
        raise BadInput("--server: asynchronous workers have batches of their own; --batch-size")
    late = of_answers["--late"]
    return JobQuestion(
        **options,
        samples=samples_of(*job, per_step=global_batch),
        framework=of_answers["--framework"],
        batch_size=batch_size,
        devices_per_node=of_answers["--devices-per-node"] or 1,
        server=server,
        servers=servers,
        late=_UNSURE if late is None else late,
        overheads=_overheads(of_answers),
        preemptions_per_node_hour=of_answers["--preemptions"],
    )


def _with_model(
    question: "JobQuestion", rented: RentalOptions, of_answers: Mapping[str, Any]
) -> "tuple[JobQuestion, OwnModel | None]":
    """Return the question about a network that is known by its name from now on.

    Raises:
        BadInput: as `pipelines.cli.workload.check_options` and `built`.
    """
    from forecasting.decisions.question import batch_sizes_of

    target, sequence_length = question.dnn, of_answers["--sequence-length"]
    if not is_target(target, _NETWORK):
        check_length(sequence_length)
        return question, None
    size = None if question.image_size is None else f"{question.image_size}"
    told = {"framework": question.framework, "server": question.server, "image_size": size}
    check_options(target, told, sequence_length)
    batch_sizes = batch_sizes_of(question, rented.capacity)
    model = build_own_model(target, batch_sizes, told, sequence_length)
    known = {"dnn": model.dnn, "image_size": model.image_size, "framework": model.framework}
    return question.model_copy(update=known), model


def check_capacity(capacity: Mapping[str, int]) -> None:
    """Refuse more nodes than a scenario may have."""
    if (most := max(capacity.values())) > limits.NODES:
        raise BadInput(f"expected at most {limits.NODES:,} nodes of a type to rent, found {most:,}")


def _server(text: str | None) -> tuple[str | None, int]:
    if text is None:
        return None, 1
    name, equals, count = text.partition("=")
    if not name or (equals and (not count.isdecimal() or not 1 <= int(count) <= limits.NODES)):
        raise BadInput(f"--server {text!r}: expected TYPE or TYPE=COUNT, e.g. emu.server=2")
    return name, int(count) if equals else 1


def _overheads(of_answers: Mapping[str, Any]) -> Overheads:
    units = {
        "launch_s": ("--launch-min", 60),
        "load_s": ("--load-min", 60),
        "checkpoint_s": ("--checkpoint-s", 1),
        "checkpoint_every_s": ("--checkpoint-every", 60),
    }
    given = {
        name: of_answers[option] * unit
        for name, (option, unit) in units.items()
        if of_answers[option] is not None
    }
    return Overheads(**given)


def _say(text: str) -> None:
    print_text(text, err=True)
