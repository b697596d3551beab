"""Several sites, one history: landed runs go to a prefix, and from there to one warehouse."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from warehouse import limits
from warehouse.durable_files import remove, sweep, sync, temporary
from warehouse.landed_files import check_name, verify
from warehouse.landing import QUARANTINE, QuarantinedRun, landed_run, run_folders, set_aside
from warehouse.prefixes import Prefix, PrefixUnreachable
from warehouse.records import BadInput, MissingTool, Record, StepcastError
from warehouse.tables import one_line
from warehouse.transfer import RECEIVED, put_in_place


class Receipt(Record):
    """Where a run that was received is from; `edition` tells that it was put there again."""

    run_id: str
    prefix: str
    edition: str


@dataclass(frozen=True)
class PushReport:
    """What one push did: run ids, how many the prefix had already, and why others did not go."""

    pushed: tuple[str, ...]
    unchanged: int
    refused: tuple[str, ...]


@dataclass(frozen=True)
class ReceiveReport:
    """What one look at a prefix brought: run ids; runs set aside; what is wrong with others.

    `left` are lines about runs that could not be read now: the next look tries them again.
    `known_bad` were set aside at an earlier look, and have not changed since.
    """

    copied: tuple[str, ...]
    refused: tuple[QuarantinedRun, ...]
    left: tuple[str, ...]
    known_bad: tuple[str, ...]


def push(landing: Path, prefix: Prefix) -> PushReport:
    """Put each landed run that the prefix lacks there, whole or not at all.

    A run whose files are not those that landed is not put there; the others are.

    Raises:
        StepcastError: the prefix does not answer. What did not go goes with the next push.
    """
    there = set(prefix.runs())
    pushed: list[str] = []
    refused: list[str] = []
    unchanged = 0
    for folder in run_folders(landing):
        if folder.name in there:
            unchanged += 1
            continue
        try:
            landed_run(folder)
            verify(folder)
            new = prefix.put(folder)
        except (BadInput, FileNotFoundError) as error:
            if folder.exists():  # else it was set aside meanwhile
                refused.append(f"run {folder.name} was not pushed: {one_line(error)}")
            continue
        pushed += [folder.name] if new else []
        unchanged += not new
    return PushReport(tuple(pushed), unchanged, tuple(refused))


def waiting_runs(prefix: Prefix, landing: Path) -> Iterator[str]:
    """Yield the runs that `receive` would fetch: neither here, nor set aside as they are there.

    Raises:
        StepcastError: the prefix does not answer.
    """
    here, bad = _here(landing)
    for run_id in prefix.runs():
        if run_id in here or not _is_name(run_id):
            continue
        try:
            if _is_known(prefix, run_id, bad):
                continue
        except (PrefixUnreachable, MissingTool):
            raise
        except (StepcastError, OSError):
            continue  # it cannot be read now
        yield run_id


def receive(prefix: Prefix, landing: Path) -> ReceiveReport:
    """Bring the runs of a prefix that `landing` lacks, each whole or not at all.

    One that is not as its site left it is set aside with its reason, and fetched again only if it
    is put there again; the others still come. Nothing is loaded yet.

    Raises:
        StepcastError: the prefix does not answer; what has come stays.
    """
    landing.mkdir(parents=True, exist_ok=True)
    sweep(landing)
    here, bad = _here(landing)
    copied: list[str] = []
    refused: list[QuarantinedRun] = []
    left: list[str] = []
    known_bad: list[str] = []
    for run_id in prefix.runs():
        if run_id in here:
            continue
        try:
            _check_run_id(run_id)
            if _is_known(prefix, run_id, bad):
                known_bad.append(run_id)
            elif (aside := _fetch(prefix, run_id, landing)) is None:
                copied.append(run_id)
            else:
                refused.append(aside)
        except (PrefixUnreachable, MissingTool):
            raise
        except (StepcastError, OSError) as error:
            left.append(f"run {run_id!r:.220} was left in {prefix.name}: {one_line(error)}")
    return ReceiveReport(tuple(copied), tuple(refused), tuple(left), tuple(known_bad))


def _fetch(prefix: Prefix, run_id: str, landing: Path) -> QuarantinedRun | None:
    """Bring one run; return where it is if it was set aside."""
    receipt = Receipt(run_id=run_id, prefix=prefix.name, edition=prefix.edition(run_id))
    fresh = temporary(landing)
    try:
        try:
            prefix.fetch(run_id, fresh)
            _sign(fresh, receipt)
        except BadInput as error:
            # What was sent stays at the prefix, so that a site cannot fill this disk.
            remove(fresh)
            fresh.mkdir()
            _sign(fresh, receipt)
            return set_aside(fresh, run_id, f"{one_line(error)} (in {prefix.name})")
        put_in_place(fresh, landing / run_id)
        return None
    finally:
        remove(fresh)


def _sign(folder: Path, receipt: Receipt) -> None:
    (folder / RECEIVED).write_text(receipt.canonical_json() + "\n")
    sync(folder / RECEIVED)
    sync(folder)


def _here(landing: Path) -> tuple[set[str], dict[str, set[str]]]:
    """Return the runs that have landed, and the editions of each that were set aside."""
    bad: dict[str, set[str]] = {}
    for folder in run_folders(landing / QUARANTINE):
        if receipt := _receipt(folder):
            bad.setdefault(receipt.run_id, set()).add(receipt.edition)
    return {folder.name for folder in run_folders(landing)}, bad


def _receipt(folder: Path) -> Receipt | None:
    try:
        with (folder / RECEIVED).open("rb") as file:
            return Receipt.model_validate_json(file.read(limits.DOCUMENT_BYTES))
    except (OSError, ValidationError):
        return None


def _is_known(prefix: Prefix, run_id: str, bad: dict[str, set[str]]) -> bool:
    return run_id in bad and prefix.edition(run_id) in bad[run_id]


def _check_run_id(run_id: str) -> None:
    check_name(run_id, "run id")
    if run_id == QUARANTINE:
        raise BadInput(f"run id {QUARANTINE!r} cannot name a folder of landed runs")


def _is_name(run_id: str) -> bool:
    try:
        _check_run_id(run_id)
    except BadInput:
        return False
    return True
