"""How wrong forecasts were, by kind of network, board and precision; behind each cell its cases."""

from collections import defaultdict
from collections.abc import Iterator
from statistics import fmean

from forecasting.forecast import fit_for_scenario
from forecasting.history_scope import host_here
from forecasting.inputs import systems_named
from models.gpu_step.system import GPU_STEP, GpuStepModel
from networks.catalogue import family
from pipelines.service.contracts import Case, Cell, Coverage
from profilers.clusters.node_types import GPU
from studies.curve import Curve
from warehouse.records import Scenario
from warehouse.warehouse import Warehouse

_ANY_STEP = {"dnn": "small_cnn", "framework": "pytorch", "batch_size": 8, "image_size": 64}


def coverage(warehouse: Warehouse) -> Coverage:
    """Return the cells that have a judged case: of this home's runs, and of public measurements."""
    cases: dict[tuple[str, str, str, str], list[Case]] = defaultdict(list)
    for key, case in [*_of_history(warehouse), *_of_public(warehouse)]:
        cases[key].append(case)
    return Coverage(
        cells=[
            Cell(
                kind=kind,
                board=board,
                precision=precision,
                system=system,
                n=len(of_cell),
                error_percent=fmean(abs(case.error_percent) for case in of_cell),
                cases=sorted(of_cell, key=lambda case: -abs(case.error_percent)),
            )
            for (kind, board, precision, system), of_cell in sorted(cases.items())
        ]
    )


Keyed = tuple[tuple[str, str, str, str], Case]


def _of_history(warehouse: Warehouse) -> Iterator[Keyed]:
    """Yield scenarios that were measured, as systems forecast them that reports are about."""
    primary = {system.name for system in systems_named(()) if system.beside or system.tells}
    for row in warehouse.kept_query("judged_scenarios").to_dicts():
        if row["system"] in primary:
            scenario = Scenario.model_validate_json(row["canonical"])
            load = scenario.workload
            board = " + ".join(dict.fromkeys(each.node_type for each in scenario.worker_groups))
            yield (
                (family(load.dnn), board, load.precision, row["system"]),
                Case(
                    label=row["label"],
                    error_percent=row["error_percent"],
                    left_out=row["split"],
                    judged=row["judged_n"],
                ),
            )


def _of_public(warehouse: Warehouse) -> Iterator[Keyed]:
    """Yield steps and passes that others measured, as fits without them forecast them."""
    curve = Curve.model_validate({**_ANY_STEP, "strategy": "single", "worker": f"{GPU}h100"})
    fitted = fit_for_scenario(warehouse, GPU_STEP, curve, host_here())
    if not isinstance(fitted, GpuStepModel):
        return
    for case in fitted.judged:
        yield (
            (
                family(case.family.lower().replace("-", "")),
                case.device,
                case.precision,
                GPU_STEP.name,
            ),
            Case(
                label=f"{case.network}, batch {case.batch}",
                error_percent=100 * (case.forecast_s / case.measured_s - 1),
                left_out=case.left_out,
                forecast_s=case.forecast_s,
                measured_s=case.measured_s,
            ),
        )
