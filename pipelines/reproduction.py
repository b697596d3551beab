"""Every fit, prediction and accuracy table anew, from runs that are kept, or of others, in a home.

Round by round, profiles are loaded, every system is fitted and predicts, and only then are the
round's measurements brought into the home: what judges a prediction is not even there when it is
made.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import polars as pl

from forecasting.fits import fit_curves, predict_missing
from forecasting.inputs import inputs_of_study, profiled_curves, rests_on_public, systems_of
from forecasting.public_files import PUBLIC_SETS, Contender, FittedRows, PublicSet
from pipelines.file_import import Part, Provenance, host_id, import_file, land_staged
from profilers.readers import csv_mapping, csv_table
from profilers.readers.contract import ReaderOptions
from studies.messages import Progress
from studies.rounds import Round, rounds_of
from studies.study import Study, read_study
from warehouse.home import CHECKOUT, code_version
from warehouse.landing import run_folders
from warehouse.ledger import FitRecord, RegisteredSystem
from warehouse.records import BadInput, Prediction, Purpose, Run, content_hash
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
        _load(reference, (*round_.runs, *round_.learned), "profile", warehouse)
        for system in systems_of(round_.study):
            fits = fit_curves(system, round_, warehouse, progress)
            warehouse.record_fit(*(fit.record for fit in fits))
            predict_missing(system, round_, warehouse, progress, fits)
        _load(reference, round_.runs, "measurement", warehouse)
    _load(reference, runs, "profile", warehouse)
    _load(reference, runs, "measurement", warehouse)
    warehouse.load_sealed(reference / FOLDER)
    return rounds


def _rests_on_public(round_: Round) -> bool:
    return any(
        rests_on_public(system, curve, round_.backend)
        for system in systems_of(round_.study)
        for curve in round_.study.curves
        if curve.is_judged
    )


def _load(reference: Path, runs: Iterable[Run], purpose: Purpose, warehouse: Warehouse) -> None:
    run_ids = [run.run_id for run in runs if run.purpose == purpose]
    # After a power failure, the home is made anew from the same runs.
    copy_kept_runs(reference, warehouse.landing, run_ids, durable=False)
    warehouse.load()


def _rounds(runs: list[Run], named: Mapping[str, Study]) -> Iterator[Round]:
    for name in sorted({run.study for run in runs} & named.keys()):
        study = named[name]
        for round_ in rounds_of(study, inputs_of_study(study), runs):
            if profiled := profiled_curves(round_, systems_of(study)):
                yield profiled


def _studies(names: Collection[str]) -> dict[str, Study]:
    known = {study.name: study for study in map(read_study, sorted(STUDIES.glob("*.yaml")))}
    by_name = {}
    for name in names or known:
        if name.endswith(".yaml"):
            study = read_study(Path(name))
            by_name[study.name] = study
        elif name in known:
            by_name[name] = known[name]
        else:
            raise BadInput(f"no study {name!r} (there are {', '.join(known)}); or give its file")
    return by_name


# Public measurements: fits to the part they may see, forecasts of the rest, and its judgement. File
# by file, the rows that fits may see are loaded, every system forecasts the others, and only then
# are those loaded.


_SAID = Provenance(None, None, None)
"""The mappings say where their files are from."""


def judge_public_files(data: Path, warehouse: Warehouse) -> Iterator[str]:
    """Import the files of `data` that have a mapping, forecast and judge; yield a line for each.

    Raises:
        BadInput: there is no such folder or none of the files in it, the home already holds runs,
            or a file is not what its mapping says.
    """
    if not data.is_dir():
        raise BadInput(f"{data} is not a folder; expected public measurements (docs/import.md)")
    if any(run_folders(warehouse.landing)):
        raise BadInput(f"{warehouse.home} holds runs already; set STEPCAST_HOME to a new folder")
    names = sorted(file.stem for file in csv_mapping.FOLDER.glob("*.yaml"))
    files = {name: _file(data, name) for name in names}
    if not any(files.values()):
        raise BadInput(f"{data} holds none of {', '.join(f'{name}.csv' for name in names)}")
    for name, file in files.items():
        sets = [public for public in PUBLIC_SETS if public.file == name]
        if file is None:
            yield f"{name}.csv: not in {data}, left out"
        elif not sets:
            yield _imported(file, "profile", warehouse, ReaderOptions())
        else:
            for public in sets:
                yield from _judged(public, file, warehouse)


def _judged(public: PublicSet, file: Path, warehouse: Warehouse) -> Iterator[str]:
    held_out = _held_out(public, file)
    if held_out.is_empty():
        return
    seen, unseen = (Part(public.name, public.rows & rows) for rows in (public.seen, ~public.seen))
    yield _imported(file, "profile", warehouse, _options(public, file), seen)
    for contender in public.contenders:
        yield _forecast(public, contender, file, held_out, warehouse)
    yield _imported(file, "measurement", warehouse, _options(public, file), unseen)


def _forecast(
    public: PublicSet,
    contender: Contender,
    file: Path,
    held_out: pl.DataFrame,
    warehouse: Warehouse,
) -> str:
    """Fit a system to what is loaded, and forecast what is held out; return a line about it."""
    runs = warehouse.visible("run").filter(study=public.name)
    seen = warehouse.visible("external", runs["run_id"].to_list()).filter(metric=public.metric)
    known = seen.drop_nulls("value")
    if known.is_empty():
        return f"{file.name}: no row that {contender.system} may see; no forecasts"
    fitted = contender.fit(_in_columns(known).with_columns(known["value"], known["repeat"]))
    fit = _fit_record(contender, public, fitted, runs, known)
    if contender.what:
        warehouse.register(
            RegisteredSystem(name=contender.system, what=contender.what, source=contender.source)
        )
    warehouse.record_fit(fit)
    forecasts = fitted.predict(held_out).drop_nulls("value")
    warehouse.record_predictions(_predictions(fit, public, forecasts))
    return (
        f"{file.name}: {contender.system} saw {known.height:,} rows and forecasts "
        f"{public.metric} of {forecasts.height:,} of {held_out.height:,} subjects held out"
    )


def _fit_record(
    contender: Contender,
    public: PublicSet,
    fitted: FittedRows,
    runs: pl.DataFrame,
    known: pl.DataFrame,
) -> FitRecord:
    return FitRecord(
        system=contender.system,
        model_version=contender.version,
        parameters=json.loads(fitted.parameters_json()),
        run_ids=tuple(runs["run_id"]),
        row_filter=f"all visible rows of these runs in external with metric {public.metric}",
        row_count=known.height,
        data_hash=sha256(known.drop("run_id").write_csv().encode()).hexdigest()[:16],
        backend="imported",
        host_id=runs["host_id"][0],
        code_version=code_version(),
        created_at=datetime.now(UTC),
    )


def _predictions(fit: FitRecord, public: PublicSet, forecasts: pl.DataFrame) -> list[Prediction]:
    fit_id = fit.fit_id  # a hash of all parameters: once, not for every forecast
    return [
        Prediction(
            system=fit.system,
            model_version=fit.model_version,
            fit_id=fit_id,
            subject_kind="external",
            subject_id=row["subject_id"],
            backend=fit.backend,
            host_id=fit.host_id,
            study=public.name,
            repeat=1,
            metric=public.metric,
            unit=public.unit,
            value=row["value"],
            low=row["low"],
            high=row["high"],
            code_version=fit.code_version,
            made_at=fit.created_at,
        )
        for row in forecasts.to_dicts()
    ]


def _held_out(public: PublicSet, file: Path) -> pl.DataFrame:
    """Return the subjects that are to be forecast; what was measured of them is dropped unread."""
    subjects, hosts = [], set()
    for imported in csv_table.read(file, _options(public, file)):
        rows = imported.tables["external"].drop("value")
        held_out = rows.filter(public.rows & ~public.seen, metric=public.metric)
        subjects.append(held_out.select("subject"))
        hosts.add(host_id(imported))
    if len(hosts) > 1:
        raise BadInput(f"{file.name} is of several machines; a fit is of one")
    cases = pl.concat(subjects).unique(maintain_order=True)
    return cases if cases.is_empty() else _in_columns(cases)


def _in_columns(rows: pl.DataFrame) -> pl.DataFrame:
    """Return subject_id and what the column `subject` holds, one row for each of `rows`."""
    texts = rows["subject"].to_list()
    columns = pl.DataFrame([json.loads(text) for text in texts], infer_schema_length=None)
    return columns.with_columns(subject_id=pl.Series([content_hash(text) for text in texts]))


def _imported(
    file: Path,
    purpose: Purpose,
    warehouse: Warehouse,
    options: ReaderOptions,
    part: Part | None = None,
) -> str:
    with land_staged(warehouse.landing) as staging:
        line = import_file(file, "csv", options, _SAID, purpose, staging, part)
    report = warehouse.load()
    if report.quarantined:
        raise BadInput(f"{file.name} was set aside: {report.quarantined[0].reason}")
    return f"{line}, {purpose}"


def _options(public: PublicSet, file: Path) -> ReaderOptions:
    if public.mapping is not None:
        return ReaderOptions(mapping=csv_mapping.FOLDER / "subjects" / f"{public.mapping}.yaml")
    is_named = file.name.startswith(f"{public.file}.csv")
    return (
        ReaderOptions()
        if is_named
        else ReaderOptions(mapping=csv_mapping.FOLDER / f"{public.file}.yaml")
    )


def _file(data: Path, name: str) -> Path | None:
    """Return the file of a mapping: `data/a_b.csv`, or `data/a/b.csv`, gzipped or not."""
    folder, _, rest = name.partition("_")
    stems = (data / name, data / folder / rest)
    files = [stem.with_name(f"{stem.name}.csv{end}") for stem in stems for end in ("", ".gz")]
    return next((file for file in files if file.is_file()), None)
