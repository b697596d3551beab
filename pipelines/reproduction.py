"""Every fit, prediction and accuracy table anew, from runs that are kept, in a home.

Round by round, profiles are loaded, every system is fitted and predicts, and only then are the
round's measurements brought into the home: what judges a prediction is not even there when it is
made.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from forecasting.inputs import inputs_of_study, profiled_curves, requires_public, systems_of
from forecasting.round_forecasts import predict_round
from studies.messages import Progress
from studies.rounds import Round, rounds_of
from studies.study import Study, read_study
from warehouse.home import CHECKOUT
from warehouse.landing import run_folders
from warehouse.records import BadInput, Purpose, Run
from warehouse.seal import FOLDER
from warehouse.sets import copy_kept_runs, kept_runs, sets_below
from warehouse.warehouse import Warehouse

STUDIES = CHECKOUT / "studies"
PUBLIC = CHECKOUT / "data" / "public"


def reproduce(
    reference: Path, home: Path, progress: Progress, studies: Collection[str] = ()
) -> list[Round]:
    """Rebuild a warehouse in `home` from runs that are kept; return its rounds.

    `reference` is a folder of sets or of landed runs.

    Only `studies` are rebuilt, by their names or files (*.yaml); if none is given, all of ours.
    What they learn from comes along, and public measurements where forecasts rest on them.

    Raises:
        BadInput: there is no such study, the folder holds no run of one or bad sets, or the
            home already holds runs.
    """
    named = _studies(studies)
    kept = list(kept_runs(reference))
    runs = [run for run in kept if not studies or run.study in named]
    rounds = list(_rounds(kept, named))
    if studies and (absent := named.keys() - {round_.study.name for round_ in rounds}):
        raise BadInput(f"{reference} holds no profile of study {', '.join(sorted(absent))}")
    if not rounds:
        raise BadInput(
            f"{reference} holds no complete profile of a study in {STUDIES}; name the file of your "
            "own with --study"
        )
    warehouse = Warehouse(home)
    if any(run_folders(warehouse.landing)):
        raise BadInput(f"{home} holds runs already; set STEPCAST_HOME to a new folder")
    if any(map(_rests_on_public, rounds)):
        progress.say("load public measurements")
        for folder in sets_below(PUBLIC):
            _load(folder, kept_runs(folder), "profile", warehouse)
    for number, round_ in enumerate(rounds, start=1):
        progress.say(f"predict {round_.study.name}, round {round_.repeat} ({number}/{len(rounds)})")
        profiled = (*round_.runs, *round_.learned)
        _load(reference, profiled, "profile", warehouse, publishes=False)
        predict_round(round_, warehouse, progress)
        _load(reference, round_.runs, "measurement", warehouse, publishes=False)
    _load(reference, runs, "profile", warehouse)
    _load(reference, runs, "measurement", warehouse)
    warehouse.load_sealed(reference / FOLDER)
    return rounds


def _rests_on_public(round_: Round) -> bool:
    return any(
        requires_public(system, curve, round_.backend)
        for system in systems_of(round_.study)
        for curve in round_.study.curves
        if curve.is_judged
    )


def _load(
    reference: Path,
    runs: Iterable[Run],
    purpose: Purpose,
    warehouse: Warehouse,
    *,
    publishes: bool = True,
) -> None:
    run_ids = [run.run_id for run in runs if run.purpose == purpose]
    # After a power failure, the home is made anew from the same runs.
    copy_kept_runs(reference, warehouse.landing, run_ids, durable=False)
    warehouse.load(recheck=publishes, publishes=publishes)


def _rounds(runs: list[Run], named: Mapping[str, Study]) -> Iterator[Round]:
    for name in sorted({run.study for run in runs} & named.keys()):
        study = named[name]
        for round_ in rounds_of(study, inputs_of_study(study), runs):
            if profiled := profiled_curves(round_, systems_of(study)):
                yield profiled


def _studies(names: Collection[str]) -> dict[str, Study]:
    named = {read_study(file, traces=False).name: file for file in sorted(STUDIES.glob("*.yaml"))}
    studies = []
    for name in names or named:
        if not name.endswith(".yaml") and name not in named:
            raise BadInput(f"no study {name!r} (there are {', '.join(named)}); or give its file")
        studies.append(read_study(named.get(name) or Path(name)))
    return {study.name: study for study in studies}
