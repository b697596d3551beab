"""What has landed in a round with other settings than the study has now, in words."""

from collections.abc import Iterator, Mapping, Sequence

from profilers.probes import PROBES
from studies.rounds import Round
from studies.settings import differences
from studies.words import count, some


def changes(round_: Round) -> Iterator[str]:
    """Yield a line for each way in which settings have changed since runs of a round landed.

    Where they say what is measured, these runs are measured again; else, and once the round has
    measured something that it is judged by, they are used as they are.
    """
    again: dict[str, list[str]] = {}
    for run in round_.runs:
        if need := round_.superseded.get(run.run_id):
            found = differences(run, need.settings) or {}
            essential = PROBES[need.probe].essential
            said = ", ".join(text for name, text in found.items() if name in essential)
            again.setdefault(said, []).append(need.title)
    yield from _lines(again, "measured again, since the study asks for something else")
    as_they_are: dict[str, list[str]] = {}
    silent = 0
    for need in round_.needs:
        serving = round_.run_of(need)
        if serving is None:
            continue
        differing = differences(serving, need.settings)
        silent += differing is None
        if differing:
            as_they_are.setdefault(", ".join(differing.values()), []).append(need.title)
    yield from _lines(as_they_are, "used as it has landed")
    if silent:
        yield (
            f"{count(silent, 'run')} landed without the settings of their probes; used as if those "
            "were the study's"
        )


def _lines(found: Mapping[str, Sequence[str]], then: str) -> Iterator[str]:
    for said, names in found.items():
        yield f"{some(names)}: landed with {said}; {then}"
