"""What an evaluation is about: the study and its round, and the runs that it rests on."""

from dataclasses import dataclass

from forecasting.chosen import baseline_in_words
from studies.curve import node_types
from studies.rounds import Round
from warehouse.records import Backend, Run


@dataclass(frozen=True)
class About:
    """A round in words, and its runs.

    `metric` is what is predicted and measured, `baseline` what predictions stand beside, both as
    figures and tables name them; `node_types` are the combinations of its nodes.
    """

    study: str
    description: str
    repeat: int
    backend: Backend
    host_id: str
    metric: str
    baseline: str
    node_types: tuple[str, ...]
    runs: tuple[Run, ...]


def about(round_: Round) -> About:
    """Return what a round is about."""
    study = round_.study
    return About(
        study=study.name,
        description=study.description,
        repeat=round_.repeat,
        backend=round_.backend,
        host_id=round_.host_id,
        metric=study.metric.in_words,
        baseline=baseline_in_words(study),
        node_types=tuple(node_types(study.curves)),
        runs=round_.runs,
    )
