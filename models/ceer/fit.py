"""Ceer on raw tables: fitted to all runs that profiled for it, asked for scenarios."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

import polars as pl

from models.ceer import overhead, predictor
from models.ceer.operations import NetworkOperations, observed_operations, operations_of_graph
from models.ceer.overhead import STEPS, Setup
from models.ceer.parameters import Parameters
from models.inputs import refusing_unknown_networks
from models.profiled_run import read_scenario
from models.system import NotCovered, Tables, unknown_recipe
from networks.catalogue import OWN
from networks.extraction import extract_graph, own_step
from warehouse.records import BadInput, Scenario, TrainingWorkload

PREDICTIONS = {
    "scenario_id": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "unknown": pl.String,
}
PROBES = {
    "tensorflow": ("tf_operations", "tf_sync"),
    "pytorch": ("torch_operations", "torch_throughput"),
}
"""What times operations of one device and steps of data parallelism, by framework."""
_DISTRIBUTED = [steps for _, steps in PROBES.values()]
_MEASURE = "list such a scenario under train of a study, and `stepcast run`"


def operations_of_workload(load: TrainingWorkload) -> NetworkOperations:
    """Return the network of a workload, from its graph alone.

    Raises:
        NotCovered: its graph cannot be extracted.
    """
    with refusing_unknown_networks():
        graph = extract_graph(load.dnn, load.batch_size, load.image_size, load.framework)
    return operations_of_graph(graph)


@dataclass(frozen=True)
class FittedCeer:
    """A fitted model of a framework that knows how a scenario's network looks."""

    parameters: Parameters
    network: Callable[[TrainingWorkload], NetworkOperations] = field(
        default=operations_of_workload, repr=False
    )
    framework: str = "tensorflow"

    def predict(self, scenarios: Sequence[Scenario]) -> pl.DataFrame:
        """Return `PREDICTIONS`: step_time_s of each scenario with an interval, in their order.

        Where operations may be heavy that no profile had, there is no value, only the interval, and
        `unknown` names them and says what to measure.

        Raises:
            BadInput: a scenario has another strategy than `explain_refusal` lets pass, a node type,
                number of devices or link that no profile had; the message says what to measure.
        """
        rows = [self._predict(scenario) for scenario in scenarios]
        return pl.DataFrame(rows, schema=PREDICTIONS, orient="row")

    def parameters_json(self) -> str:
        """Return the fitted parameters."""
        return self.parameters.canonical_json()

    def _predict(self, scenario: Scenario) -> tuple[str | float | None, ...]:
        reason = explain_refusal(scenario, self.framework)
        if reason is not None:
            raise BadInput(f"ceer does not predict {scenario.label}: {reason}")
        node_type, devices, link_mbps = _setup(scenario)
        overheads = self.parameters.overheads
        _check_known(
            scenario, {(setup.node_type, setup.devices, setup.link_mbps) for setup in overheads}
        )
        (row,) = (
            predictor.predict_steps(self.parameters, self.network(scenario.workload), node_type)
            .filter(pl.col("link_mbps").eq_missing(link_mbps), devices=devices)
            .to_dicts()
        )
        unknown = None
        if row["unseen"]:
            operations = ", ".join(row["unseen"])
            unknown = f"no profiled DNN has {operations}; profile one that has: {_MEASURE}"
        return scenario.scenario_id, row["step_s"], row["low_s"], row["high_s"], unknown


def explain_refusal(scenario: Scenario, framework: str = "tensorflow") -> str | None:
    """Say why Ceer has nothing to say of a scenario, whatever is measured; None if it has."""
    strategy, trained_by = scenario.strategy, scenario.workload.framework
    node_types = _types(scenario)
    if strategy.kind != "all_reduce":
        return f"it is about synchronous training (all_reduce), not {strategy.kind}"
    if trained_by != framework:
        return f"it was fitted to operations of {framework}, not of {trained_by}"
    if reason := unknown_recipe(scenario.workload) or _untraced(scenario.workload):
        return reason
    if len(node_types) > 1:
        return f"it is about devices of one type, not {' and '.join(sorted(node_types))}"
    if any(group.batch_size is not None for group in scenario.nodes):
        return "it is about devices that take the same batch each"
    return None


def _untraced(load: TrainingWorkload) -> str | None:
    """Say why the operators of a user's model are not known; None of all other networks."""
    if not load.dnn.startswith(OWN):
        return None
    step = own_step(load.dnn, load.batch_size)
    return f"it needs the operators of a training step: {step}" if isinstance(step, str) else None


def check_measured(
    scenario: Scenario, measured: Iterable[Scenario], *, between: bool = True
) -> None:
    """Refuse what Ceer could not predict after steps of these scenarios have been measured.

    Args:
        scenario: that is asked about.
        measured: one of them on one device, at least.
        between: whether numbers of devices between those that were measured are known too.

    Raises:
        NotCovered: none of them trains on as many devices of the type, and on such links.
    """
    setups = {_setup(other) for other in measured if len(_types(other)) == 1}
    if between:
        setups |= set(overhead.between([setup for setup in setups if setup[1] > 1]))
    _check_known(scenario, setups)


def fit(framework: str, published: bool, tables: Tables) -> FittedCeer:
    """Fit to raw tables of profile runs of one host and backend.

    Args:
        framework: whose operations to fit.
        published: whether as section IV has it.
        tables: of runs of `PROBES` of the framework; those that are no all_reduce of one node type
            and the framework are left out.

    Raises:
        BadInput: tables that are incomplete, or contradict each other.
    """
    predictable = predictable_scenarios(tables["scenario"], framework)
    runs = tables["run"]
    measured = runs.filter(pl.col("scenario_id").is_in(predictable["scenario_id"].to_list()))
    if measured.is_empty():
        raise BadInput(
            f"ceer cannot be fitted: expected profile runs of all_reduce with {framework}, "
            f"found none among {runs.height} runs; measure some with `stepcast run`"
        )
    tables = {**tables, "run": measured, "scenario": predictable}
    parameters = predictor.fit(observed_operations(tables), measured_steps(tables), published)
    return FittedCeer(parameters, framework=framework)


def measured_steps(tables: Tables) -> pl.DataFrame:
    """Return rows of `STEPS`: the mean `step_time_s` of each run.

    Steps of DNNs whose parameters no profile counted are left out.

    Args:
        tables: run, scenario, sample and dnn of runs as `fit` takes them.
    """
    timed = tables["sample"].filter(metric="step_time_s").drop_nulls("value")
    counted = tables["dnn"].group_by("dnn", "image_size").agg(pl.col("parameter_count").max())
    distributed = (pl.col("devices") > 1) | pl.col("probe").is_in(_DISTRIBUTED)
    return (
        tables["run"]
        .select("run_id", "scenario_id", "probe")
        .join(_setups(tables["scenario"]), on="scenario_id")
        .with_columns(distributed=distributed)
        .join(timed.group_by("run_id").agg(step_s=pl.col("value").mean()), on="run_id")
        .join(counted, on=["dnn", "image_size"])
        .select([pl.col(name).cast(kind) for name, kind in STEPS.items()])
        .sort(pl.all())
    )


def predictable_scenarios(scenarios: pl.DataFrame, framework: str = "tensorflow") -> pl.DataFrame:
    """Return the rows of table scenario that fits see: once each, and of no user's model."""
    known = scenarios.unique("scenario_id", maintain_order=True)
    parsed = map(read_scenario, known["canonical"])
    # Whether a model of a user was traced in this process must not decide what a fit sees.
    kept = [
        not scenario.workload.dnn.startswith(OWN) and explain_refusal(scenario, framework) is None
        for scenario in parsed
    ]
    return known.filter(pl.Series(kept, dtype=pl.Boolean))


def _setups(scenarios: pl.DataFrame) -> pl.DataFrame:
    rows = []
    for scenario_id, text in scenarios.select("scenario_id", "canonical").iter_rows():
        scenario = read_scenario(text)
        load = scenario.workload
        job = (load.dnn, load.image_size, load.batch_size)
        rows.append((scenario_id, *job, *_setup(scenario)))
    names = ("dnn", "image_size", "batch_size", "node_type", "devices", "link_mbps")
    schema = {"scenario_id": pl.String} | {name: STEPS[name] for name in names}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _setup(scenario: Scenario) -> Setup:
    """Return node type, number of devices and link; a single device sends nothing over its link."""
    node_type = next(group.node_type for group in scenario.nodes if group.role == "worker")
    devices = scenario.strategy.workers * scenario.strategy.devices_per_node
    return node_type, devices, scenario.link_mbps if devices > 1 else None


def _types(scenario: Scenario) -> set[str]:
    return {group.node_type for group in scenario.nodes if group.role == "worker"}


def _check_known(scenario: Scenario, setups: Collection[Setup]) -> None:
    node_type, devices, link_mbps = _setup(scenario)
    if (node_type, devices, link_mbps) in setups:
        return
    known = sorted({(k, speed or 0.0) for name, k, speed in setups if name == node_type})
    listed = ", ".join(_setup_name(*setup) for setup in known) or "nothing"
    raise NotCovered(
        f"ceer cannot predict {scenario.label} on {node_type}: expected steps of "
        f"{_setup_name(devices, link_mbps)} of any DNN, found {listed}; {_MEASURE}"
    )


def _setup_name(devices: int, link_mbps: float | None) -> str:
    return f"{devices} device(s)" + (f" at {link_mbps:g} Mb/s" if link_mbps else "")
