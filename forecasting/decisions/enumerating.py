"""Every way to run a job within what can be rented, as scenarios that systems are asked about."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from forecasting.asked.runs import VisibleRun
from forecasting.decisions.question import Question
from networks import check
from profilers.record_file import fault
from studies.curve import Curve
from warehouse.records import BadInput

_ALL_UP_TO = 16
"""Up to so many nodes of a type every number of them is asked about, beyond only powers of two."""

_OPTIONS = {"worker": "--capacity", "image_size": "--image-size", "link_mbps": "--link-mbps"}
"""What says a field of a scenario."""
Framework = Literal["tensorflow", "pytorch"]


@dataclass(frozen=True)
class Known:
    """What profiles say about a question that does not: sizes of images, speeds of links."""

    image_size: int
    link_mbps: float
    frameworks: tuple[Framework, ...]


def curves_of(question: Question, known: Known, capacity: Mapping[str, int]) -> list[Curve]:
    """Return the curves to ask about: each node type, and number of workers and servers.

    Raises:
        BadInput: nothing can be trained this way, there is no such node type, or servers are
            offered to frameworks that train without.
    """
    if question.server is not None and "tensorflow" not in known.frameworks:
        raise BadInput(
            f"--server: only TensorFlow trains with parameter servers, not {question.dnn} of "
            f"{', '.join(known.frameworks)}; leave --server out"
        )
    curves = [
        curve
        for node_type, most in capacity.items()
        for fields in _fields(question, known, most)
        for curve in [_curve(fields | {"worker": node_type})]
    ]
    if curves:
        return curves
    raise _undivided(question)


def _undivided(question: Question) -> BadInput:
    return BadInput(
        f"{question.dnn}: nothing on offer divides a global batch of {question.global_batch}; "
        "change --global-batch or --capacity, or give --batch-size, that of each device"
    )


def _fields(question: Question, known: Known, most: int) -> Iterator[dict[str, Any]]:
    """Yield what curves of up to so many workers have, but for the type of these."""
    common = {
        "dnn": question.dnn,
        "image_size": known.image_size,
        "link_mbps": known.link_mbps,
    }
    each = question.devices_per_node
    for framework in known.frameworks:
        step = {**common, "framework": framework, "strategy": "all_reduce"}
        for batch_size, workers in _divided(question, counts(most), each):
            size = {"batch_size": batch_size, "workers": workers, "devices_per_node": each}
            yield step | size
    if question.server and question.batch_size and "tensorflow" in known.frameworks:
        for servers in range(1, question.servers + 1):
            workers = counts(most)
            yield {**common, "batch_size": question.batch_size, "workers": workers} | {
                "server": question.server,
                "servers": servers,
            }


def _divided(
    question: Question, workers: Sequence[int], each: int
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield batch sizes of a device, each with the numbers of workers that have it."""
    if question.global_batch is None:
        if question.batch_size is not None:
            yield question.batch_size, tuple(workers)
        return
    for count in workers:
        if question.global_batch % (count * each) == 0:
            yield question.global_batch // (count * each), (count,)


def batch_sizes_of(question: Question, capacity: Mapping[str, int]) -> tuple[int, ...]:
    """Return samples of a step of each device, of every way to run the job.

    Raises:
        BadInput: as `curves_of`: nothing divides the global batch.
    """
    each = question.devices_per_node
    found = (
        size for most in capacity.values() for size, _ in _divided(question, counts(most), each)
    )
    if sizes := tuple(dict.fromkeys(found)):
        return sizes
    raise _undivided(question)


def counts(most: int) -> tuple[int, ...]:
    """Return the numbers of nodes that are asked about where there are so many."""
    if most <= _ALL_UP_TO:
        return tuple(range(1, most + 1))
    powers = (1 << place for place in range(most.bit_length()))
    return tuple(sorted({*powers, most}))


def _curve(fields: Mapping[str, Any]) -> Curve:
    try:
        return Curve.model_validate(fields)
    except ValidationError as error:
        told = fault(error, Curve)
        for field, option in _OPTIONS.items():
            if told.startswith(f"{field}:"):
                told = option + told.removeprefix(field)
        raise BadInput(told) from None


def known_of(question: Question, runs: Sequence[VisibleRun]) -> Known:
    """Return what profiles say where a question does not.

    Raises:
        BadInput: they say nothing, or several things; or there is no such network.
    """
    about = [one.subject.scenario for one in runs if one.subject.scenario is not None]
    loads = [one.workload for one in about if one.workload.dnn == question.dnn]
    sizes = sorted({one.image_size for one in loads})
    image_size = question.image_size
    if image_size is None:
        if not sizes:
            raise BadInput(
                f"{question.dnn}: no run of it tells the side of its images; give --image-size"
            )
        told = f"{question.dnn} was profiled at {_said(sizes, 'px')}"
        image_size = int(_only(sizes, told, "--image-size"))
    speeds = sorted({one.subject.link_mbps for one in runs if one.subject.link_mbps is not None})
    link_mbps = question.link_mbps or (
        _only(speeds, f"links of {_said(speeds, 'Mb/s')} were probed", "--link-mbps")
        if speeds
        else _UNSHAPED
    )
    return Known(image_size, link_mbps, _frameworks(question, image_size))


_UNSHAPED = 1000.0
"""A speed that a scenario on links which nobody shapes does not keep."""


def _only(values: Sequence[Any], told: str, option: str) -> Any:
    if len(values) == 1:
        return values[0]
    raise BadInput(f"{told}: say which with {option}")


def _said(values: Sequence[float], unit: str) -> str:
    return f"{' and '.join(f'{one:g}' for one in values)} {unit}"


def _frameworks(question: Question, image_size: int) -> tuple[Framework, ...]:
    """Return the frameworks that have the network.

    Raises:
        BadInput: none has.
    """
    asked: tuple[Framework, ...] = (
        ("pytorch", "tensorflow") if question.framework is None else (question.framework,)
    )
    found: list[Framework] = []
    problem = ""
    for framework in asked:
        try:
            check(question.dnn, image_size, framework)
        except ValueError as error:
            problem = problem or str(error)
        else:
            found.append(framework)
    if not found:
        raise BadInput(problem)
    return tuple(found)
