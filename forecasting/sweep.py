"""A sweep: forecasts of a grid of scenarios, at the prices of some days, in parts.

A part is one question to the history as it was when the sweep began, and one Parquet file, which is
there whole or not at all. Parts do not know of each other, so whoever computes them, in whichever
order, and however often somebody was killed, the rows are the same. Nothing is written to the
ledger.
"""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, time
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl
from pydantic import TypeAdapter, ValidationError
from threadpoolctl import threadpool_limits

from forecasting.code import code_digest
from forecasting.forecast import fit_for_scenario, predict_curves
from forecasting.forecast_rows import SCHEMA, rows_by_scenario
from forecasting.history_scope import HostSelection, host_here, select_host_of_types, visible_runs
from forecasting.inputs import systems_named
from forecasting.sweep_file import Grid, Part, SweepFile, is_own_model, parts_of
from models.choice.offers import preferred_prices
from networks import check
from networks.extraction import register_own_model
from networks.own_model import OwnModel, model_of
from profilers.record_file import fault
from studies.curve import Curve
from warehouse import durable_files
from warehouse.durable_files import scratch, write_text
from warehouse.history import PublishedHistory
from warehouse.home import HISTORY, code_version
from warehouse.warehouse import Warehouse

_MANIFEST = "sweep.json"

# The folder of a sweep: what it asks, the history that it asks, and the parts that are there.


@dataclass(frozen=True)
class SweepFolder:
    """A folder with a sweep that was begun."""

    path: Path

    @cached_property
    def manifest(self) -> Mapping[str, Any]:
        """What the sweep is: `sweep`, `place`, `prices_as_of`, `code`, `begun_at`."""
        return dict(json.loads((self.path / _MANIFEST).read_text()))

    @cached_property
    def sweep(self) -> SweepFile:
        """The question."""
        return SweepFile.model_validate(self.manifest["sweep"])

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """All parts."""
        return parts_of(self.sweep)

    @property
    def missing(self) -> tuple[Part, ...]:
        """Parts that are not there yet."""
        present = {path.name for path in self.path.glob("part-*.parquet")}
        return tuple(part for part in self.parts if part.file not in present)

    @property
    def rows(self) -> pl.LazyFrame:
        """All rows that are there, in the order of scenarios."""
        return pl.scan_parquet([self.path / part.file for part in self.parts])

    def grid(self, template: int) -> Grid:
        """Return the curves of a template; a model of the user's own is known from now on."""
        fields = self.sweep.scenarios[template]
        if not is_own_model(fields["dnn"]):
            return Grid(fields)
        model = model_of(fields["dnn"], json.loads(self.model_file(template).read_text()))
        register_own_model(model)
        return Grid(fields, model)

    def model_file(self, template: int) -> Path:
        """Return where the traced model of a template is, if it is about one."""
        return self.path / f"model-{template:03}.json"

    def open(self) -> PublishedHistory:
        """Return the history as it was when the sweep began."""
        return PublishedHistory(self.path)

    def forget_inputs(self) -> None:
        """Give back the space of that history and of traced models."""
        for file in (self.path / HISTORY, *self.path.glob("model-*.json")):
            file.unlink(missing_ok=True)


Models = Mapping[int, OwnModel]
"""Models of the user's own as they were traced, by the number of their template."""
NO_MODELS: Models = MappingProxyType({})


def folder_of(sweep: SweepFile, path: Path, home: Path, models: Models = NO_MODELS) -> SweepFolder:
    """Return the folder of a sweep: its name tells the question and the code that answers it."""
    traced = [_text(model) for model in models.values()]
    identity = "\n".join([sweep.model_dump_json(), code_version(), code_digest(), *traced])
    return SweepFolder(home / "sweeps" / f"{path.stem}-{sha256(identity.encode()).hexdigest()[:8]}")


def _text(model: OwnModel) -> str:
    return json.dumps(model.traced, sort_keys=True)


def begin(
    folder: SweepFolder, sweep: SweepFile, warehouse: Warehouse, models: Models = NO_MODELS
) -> None:
    """Fit what forecasts rest on, and keep the history as it is now; a begun sweep stays as it is.

    The kept history is a second name of the published file: it takes no space until the next one is
    published.

    Raises:
        BadInput: nothing has been measured.
    """
    if (folder.path / _MANIFEST).exists():
        durable_files.sweep(folder.path)  # what killed steps left of parts
        return
    grids = [Grid(template, models.get(number)) for number, template in enumerate(sweep.scenarios)]
    place = _select_host(grids, warehouse)
    for system in systems_named(sweep.systems):
        for grid in grids:
            curve = Curve.model_validate(grid.fields(0))
            fit_for_scenario(warehouse, system, curve, place)
    shutil.rmtree(folder.path, ignore_errors=True)
    folder.path.mkdir(parents=True)
    try:
        os.link(warehouse.home / HISTORY, folder.path / HISTORY)
    except OSError:  # not every file system has links
        shutil.copyfile(warehouse.home / HISTORY, folder.path / HISTORY)
    graphs = warehouse.home / "graphs"
    graphs.mkdir(exist_ok=True)  # whoever opens a history keeps graphs of networks beside it
    (folder.path / "graphs").symlink_to(graphs.absolute())
    for number, model in models.items():
        write_text(folder.model_file(number), _text(model))
    now = datetime.now(UTC)
    days = sweep.prices_on
    manifest = {
        "sweep": sweep.model_dump(mode="json"),
        "place": asdict(place),
        "prices_as_of": [datetime.combine(day, time.max, UTC).isoformat() for day in days]
        or [now.isoformat()],
        "code": code_version(),
        "begun_at": now.isoformat(timespec="seconds"),
    }
    write_text(folder.path / _MANIFEST, json.dumps(manifest, indent=1))


def _select_host(grids: Sequence[Grid], warehouse: Warehouse) -> HostSelection:
    """Return whose profiles count: one host for all parts."""
    runs = visible_runs(warehouse)
    if not runs and visible_runs(warehouse, public=True):
        return host_here()
    curves = [Curve.model_validate(grid.fields(0)) for grid in grids]
    names: set[str] = set()
    for grid, first in zip(grids, curves, strict=True):
        for worker in grid.axes.get("worker", [" + ".join(first.worker)]):
            names |= set(Curve.model_validate({**grid.fields(0), "worker": worker}).worker)
        names |= set(filter(None, grid.axes.get("server", [first.server])))
    return select_host_of_types(runs, names, {curve.link_mbps for curve in curves})


# Rows of a part.


def forecast_part(folder: SweepFolder, number: int) -> int:
    """Write the rows of a part, and return how many there are.

    On one core: as many parts are made at a time as there are.
    """
    with threadpool_limits(1):
        frame = part_rows(folder, folder.parts[number])
    with scratch(folder.path) as fresh:
        frame.write_parquet(fresh, compression="zstd", statistics=False)
        os.replace(fresh, folder.path / folder.parts[number].file)
    return len(frame)


def part_rows(folder: SweepFolder, part: Part) -> pl.DataFrame:
    """Return the rows of a part, in the order of scenarios, systems and days of prices."""
    grid = folder.grid(part.template)
    named = {} if grid.model is None else {"dnn": grid.template["dnn"]}
    place = TypeAdapter(HostSelection).validate_python(folder.manifest["place"])
    systems = systems_named(folder.sweep.systems)
    curves: list[Curve | str] = [_curve(grid.fields(at)) for at in range(part.start, part.stop)]
    sound = [curve for curve in curves if isinstance(curve, Curve)]
    history = folder.open()
    # Of models of the user's own, what is far out is refused, as `stepcast predict` does.
    answer = predict_curves(
        history, sound, systems, chosen_host=place, dry_run=True, far_out=grid.model is None
    )
    priced = [
        (
            datetime.fromisoformat(moment).date(),
            preferred_prices(history.query("prices_as_of", as_of=moment, market="on_demand")),
        )
        for moment in folder.manifest["prices_as_of"]
    ]
    by_scenario = rows_by_scenario(answer, priced)
    all_rows: list[Mapping[str, Any]] = []
    for offset, curve in enumerate(curves):
        first = part.first_scenario + offset * len(grid.workers)
        if isinstance(curve, str):
            fields = grid.fields(part.start + offset)
            said = {name: fields[name] for name in fields if name in SCHEMA}
            said |= {"node_type": fields["worker"], **named}
            all_rows += [
                {**said, "scenario": first + at, "nodes": count, "refusal": curve}
                for at, count in enumerate(sorted(grid.workers))
            ]
            continue
        workers = {"node_type": " + ".join(curve.worker)}
        for at, scenario in enumerate(curve.scenarios(place.backend)):
            all_rows += [
                {**row, **workers, **named, "scenario": first + at} for row in by_scenario[scenario]
            ]
    return pl.DataFrame(all_rows, schema=dict(SCHEMA), orient="row")


def _curve(fields: Mapping[str, Any]) -> Curve | str:
    """Return the curve of fields, or why there is none."""
    try:
        curve = Curve.model_validate(fields)
        check(curve.dnn, curve.image_size, curve.framework)
    except ValidationError as error:
        return fault(error, Curve)
    except ValueError as error:
        return str(error)
    return curve
