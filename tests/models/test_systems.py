"""What every system keeps to, whatever it predicts: `models.system`."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Literal, get_args

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.async_sgd import as_published as async_sgd_paper
from models.async_sgd import predictor as async_sgd_predictor
from models.async_sgd.systems import ASYNC_SGD_PAPER, ONE_SERVER
from models.ceer.fit import FittedCeer
from models.ernest import ERNEST
from models.gpu_step import scenario_steps
from models.gpu_step.system import GPU_STEP
from models.predictddl import as_published, residuals
from models.predictddl import systems as predictddl
from models.srift import predictor as srift_predictor
from models.srift import system as srift_system
from models.srift.boosting import Grid
from models.srift.parameters import PAPER as SRIFT_AS_PUBLISHED
from models.system import FittedSystem, System
from models.systems import SYSTEMS
from profilers.probes import PROBES
from studies.curve import Curve
from tests.models.async_sgd import captured_job
from tests.models.async_sgd.frames import chain
from tests.models.ceer import study as ceer
from tests.models.gpu_step import public as gpus
from tests.models.gpu_step.public import TABLES
from tests.models.predictddl import study as networks
from tests.models.runs import raw_tables, scenario
from tests.models.srift import study as srift
from warehouse.records import BadInput, NodeGroup, Scenario, Strategy, TrainingWorkload
from warehouse.requirements import Refusal, Requirement

SYSTEM = pytest.mark.parametrize("system", SYSTEMS, ids=[system.name for system in SYSTEMS])


FEW = settings(max_examples=10)
"""Properties of one answer need no more; there are many systems."""


@dataclass(frozen=True)
class Declared(Mapping[str, pl.DataFrame]):
    """Tables of which a system may read those that it declares."""

    tables: Mapping[str, pl.DataFrame]
    system: System

    def __getitem__(self, name: str) -> pl.DataFrame:
        assert name in self.system.tables, f"{self.system.name} does not declare {name}"
        return self.tables[name]

    def __contains__(self, name: object) -> bool:
        return name in self.system.tables and name in self.tables

    def __iter__(self) -> Iterator[str]:
        return iter(self.system.tables)

    def __len__(self) -> int:
        return len(self.system.tables)


OF_NETWORKS = (
    "predictddl",
    "predictddl_paper",
    "predictddl_untrained",
    "predictddl_histogram",
    "log_linear",
    "black_box",
    "gray_box",
    "ernest",
    "ernest_pooled",
)
"""Those that learn from whole steps of PyTorch's networks."""


@pytest.fixture(autouse=True, scope="module")
def made_up_graphs() -> Iterator[None]:
    """Networks of tests have no modules, but graphs; little is chosen among and simulated.

    Choosing among all takes seconds for each system, and is tested where they are.
    """
    grid = Grid(depths=(3,), rounds=(20,), folds=2)
    svr = {name: values[:1] for name, values in as_published.GRIDS["svr"].items()}
    with pytest.MonkeyPatch.context() as patch:
        few_settings = {**as_published.GRIDS, "svr": svr, "mlp": {"neurons": (2,)}}
        patch.setattr(as_published, "GRIDS", few_settings)
        patch.setattr(srift_predictor, "Settings", partial(srift_predictor.Settings, grid=grid))
        patch.setattr(srift_system, "PAPER", SRIFT_AS_PUBLISHED.model_copy(update={"grid": grid}))
        few = partial(async_sgd_predictor.Settings, simulated_operations=100_000)
        for module in (async_sgd_predictor, async_sgd_paper):
            patch.setattr(module, "Settings", few)
        for name in [*residuals.REGRESSORS][2:]:
            patch.delitem(residuals.REGRESSORS, name)
        patch.setattr(predictddl, "primitive_graphs", networks.graphs)
        patch.setattr(scenario_steps, "gpu_steps", gpus.made_up_steps)
        yield


def asynchronous() -> tuple[dict[str, pl.DataFrame], list[Scenario]]:
    """A profile of one worker and one server."""
    made = chain(untraced_us=[1_000_000])
    types = pl.when(pl.col("operation") < 1).then(pl.lit("VariableV2")).otherwise(pl.lit("_"))
    tables = raw_tables(
        replace(made, operations=made.operations.with_columns(type=types)),
        {"client_gap_s": [0.05], "step_time_s": [1.05]},
        contention=pl.DataFrame(schema={"run_id": pl.String}),
    )
    return tables, [scenario(1), scenario(3)]


def world(system: System) -> tuple[Declared, list[Scenario]]:
    """Return the tables of made-up runs that a system rests on, and what it may be asked."""
    if system.name.startswith("ceer"):
        framework = "pytorch" if "pytorch" in system.name else "tensorflow"
        tables = ceer.tables()
        cases = [ceer.scenario("e", "slow", 1), ceer.scenario("c", "fast", 2)]
        if framework == "pytorch":
            tables["scenario"] = tables["scenario"].with_columns(
                canonical=pl.col("canonical").str.replace('"tensorflow"', '"pytorch"')
            )
            cases = [_of_pytorch(case) for case in cases]
        return Declared(tables, system), cases
    if system.name in OF_NETWORKS:
        cases = [networks.scenario("cow", 3, 8), networks.scenario("ant", 2, 12, "slow")]
        few = networks.scenarios(networks.NETWORKS[:4], (1, 2))
        return Declared(networks.raw_tables(few), system), cases
    if system.name in ("srift", "srift_paper", "ideal_scaling"):
        tables = srift.tables()
        mixed = srift.scenario(srift.group("fast", 2), srift.group("slow", 1, 4))
        return Declared(tables, system), [srift.scenario(srift.group("fast", 2)), mixed]
    if system is GPU_STEP:
        cases = [gpus.scenario(), gpus.scenario("g5.xlarge", precision="bfloat16")]
        return Declared(gpus.public_tables(), system), cases
    if system is ASYNC_SGD_PAPER:
        return Declared(captured_job.raw_tables(), system), [scenario(1), scenario(3)]
    tables, cases = asynchronous()
    if system is ONE_SERVER:
        cases = [scenario(3, servers=2)]
    return Declared(tables, system), cases


def _of_pytorch(case: Scenario) -> Scenario:
    load = case.workload.model_copy(update={"framework": "pytorch"})
    return case.model_copy(update={"workload": load})


def _known(fitted: FittedSystem) -> FittedSystem:
    """Return a fit that knows how the made-up networks look."""
    if isinstance(fitted, FittedCeer):
        return replace(fitted, network=ceer.network)
    return fitted


@cache
def fitted(name: str) -> FittedSystem:
    """Return a system fitted to its world, once for all tests."""
    (system,) = (system for system in SYSTEMS if system.name == name)
    return system.fit(world(system)[0])


@SYSTEM
def test_it_forecasts_what_it_does_not_refuse(system: System) -> None:
    _, cases = world(system)
    assert not [needs for needs in map(system.requires, cases) if isinstance(needs, Refusal)]
    rows = _known(fitted(system.name)).predict(cases)
    assert rows["scenario_id"].to_list() == [case.scenario_id for case in cases]
    assert (rows["value"] > 0).all() and rows["value"].null_count() == 0
    within = rows.drop_nulls(["low", "high"])
    assert ((within["low"] <= within["value"]) & (within["value"] <= within["high"])).all()


@SYSTEM
def test_equal_input_gives_equal_output_and_a_loaded_fit_predicts_as_it(system: System) -> None:
    tables, cases = world(system)
    first, second = fitted(system.name), system.fit(tables)
    assert first.parameters_json() == second.parameters_json()
    forecast = _known(first).predict(cases)
    assert _known(second).predict(cases).equals(forecast)
    loaded = system.load(first.parameters_json(), tables)
    assert loaded.parameters_json() == first.parameters_json()
    assert _known(loaded).predict(cases).equals(forecast)


NODES = st.builds(
    NodeGroup,
    role=st.just("worker"),
    node_type=st.sampled_from(["a", "b"]),
    count=st.integers(1, 4),
    batch_size=st.sampled_from([None, 4]),
)
Framework = Literal["tensorflow", "pytorch"]
FRAMEWORKS: tuple[Framework, ...] = get_args(Framework)
STRATEGIES = [
    Strategy(kind="all_reduce", workers=1),
    Strategy(kind="all_reduce", workers=1, devices_per_node=2),
    Strategy(workers=1),
    Strategy(workers=1, servers=3, placement="greedy"),
]


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Draw training of any framework, strategy and nodes."""
    strategy = draw(st.sampled_from(STRATEGIES))
    groups = draw(st.lists(NODES, min_size=1, max_size=2, unique_by=lambda group: group.node_type))
    servers = NodeGroup(role="server", node_type="s", count=max(strategy.servers, 1))
    by_servers = strategy.kind == "async_parameter_server"
    if by_servers:
        groups = [group.model_copy(update={"batch_size": None}) for group in groups]
    framework = draw(st.sampled_from(FRAMEWORKS))
    link_mbps = draw(st.sampled_from([None, 200.0]))
    return Scenario(
        workload=TrainingWorkload(dnn="x", framework=framework, image_size=32, batch_size=8),
        strategy=strategy.model_copy(update={"workers": sum(group.count for group in groups)}),
        nodes=(*groups, servers) if by_servers else tuple(groups),
        link_mbps=link_mbps,
        cross_traffic=draw(st.sampled_from([None, 0.5])) if by_servers and link_mbps else None,
    )


@SYSTEM
@given(asked=scenarios())
def test_it_says_what_it_rests_on_or_refuses(system: System, asked: Scenario) -> None:
    """It rests on runs that probes can make, and is checked with nothing planned."""
    needs = system.requires(asked)
    if isinstance(needs, Refusal):
        assert needs.reason and "\n" not in needs.reason
        return
    assert all(isinstance(need, Requirement) for need in needs)
    assert any(not need.optional for need in needs)
    assert system.requires(asked) == needs
    types = {group.node_type for group in asked.nodes}
    for need in needs:
        if need.scope == "own":
            assert need.scenario.strategy.workers == 1 or system is ERNEST
            assert need.scenario.cross_traffic is None
        assert PROBES[need.probe].concerns(need.scenario)
        assert need.scope != "train" or need.scenario == asked
        assert {group.node_type for group in need.scenario.nodes} <= types
    with suppress(BadInput):  # what it could not forecast from is told as the user's matter
        system.check(asked, (), 1500)


OF_SERVERS = ("async_sgd", "async_sgd_paper", "async_sgd_one_server", "line_rate", "linear", "lin")
OF_RINGS = ("srift", "srift_paper", "ideal_scaling", "ceer_pytorch", "ceer_pytorch_paper")
KINDS = {
    **dict.fromkeys(
        (*OF_SERVERS, "cynthia", "cynthia_half"), ("async_parameter_server", "tensorflow")
    ),
    **dict.fromkeys((*OF_RINGS, *OF_NETWORKS), ("all_reduce", "pytorch")),
    **dict.fromkeys(("ceer", "ceer_paper"), ("all_reduce", "tensorflow")),
}
"""The strategy and the framework that systems of papers, and ours, are about."""


@pytest.mark.parametrize("name", KINDS)
@FEW
@given(asked=scenarios())
def test_training_of_another_kind_is_foreign_to_it_and_refused(name: str, asked: Scenario) -> None:
    (system,) = (system for system in SYSTEMS if system.name == name)
    trained = asked.strategy.kind, asked.workload.framework
    needs = system.requires(asked)
    if trained != KINDS[name]:
        assert isinstance(needs, Refusal) and needs.foreign
    elif isinstance(needs, Refusal) and needs.foreign:
        assert system is ONE_SERVER and asked.strategy.servers == 1


@SYSTEM
def test_it_reads_what_its_probes_fill(system: System) -> None:
    if system is GPU_STEP:  # it rests on imports, and on inventories
        assert set(system.tables) == {"run", "source", "external", "sample", *TABLES}
        return
    cases = [
        _of_some_kind(strategy, framework) for strategy in STRATEGIES for framework in FRAMEWORKS
    ]
    probes = {
        need.probe
        for case in cases
        if not isinstance(needs := system.requires(case), Refusal)
        for need in needs
    }
    filled = {"run", "scenario"}.union(*(PROBES[probe].tables for probe in probes))
    assert probes
    assert set(system.tables) <= filled


def _of_some_kind(strategy: Strategy, framework: Framework) -> Scenario:
    servers = (NodeGroup(role="server", node_type="s", count=max(strategy.servers, 1)),)
    return Scenario(
        workload=TrainingWorkload(dnn="x", framework=framework, image_size=32, batch_size=8),
        strategy=strategy,
        nodes=(
            NodeGroup(role="worker", node_type="a", count=1),
            *(servers if strategy.kind == "async_parameter_server" else ()),
        ),
    )


@SYSTEM
def test_it_stands_beside_a_system_with_a_name_in_words(system: System) -> None:
    by_name = {other.name: other for other in SYSTEMS}
    if not system.beside:
        return
    baseline = by_name[system.beside]
    assert baseline is not system
    assert not baseline.beside, "one figure has one baseline"
    assert baseline.in_words
    assert baseline.pooled == system.pooled or not baseline.pooled


@SYSTEM
@FEW
@given(asked=scenarios())
def test_what_it_stands_beside_forecasts_whatever_it_does(system: System, asked: Scenario) -> None:
    """But beside cross traffic, of which linear scaling knows nothing."""
    alone = asked.model_copy(update={"cross_traffic": None})
    if system.beside and not isinstance(system.requires(alone), Refusal):
        (baseline,) = (other for other in SYSTEMS if other.name == system.beside)
        assert not isinstance(baseline.requires(alone), Refusal)


def replicas(workers: int) -> Scenario:
    """Return replicas of PyTorch on nodes of one type."""
    return srift.scenario(srift.group("emu.avx2", workers))


@SYSTEM
@pytest.mark.parametrize(
    "recipe",
    [
        {"precision": "bfloat16"},
        {"precision": "tf32"},
        {"optimizer": "adamw"},
        {"accumulate": 2},
        {"memory_format": "channels_last"},
    ],
    ids=str,
)
def test_a_recipe_that_a_system_does_not_know_is_refused(
    system: System, recipe: dict[str, Any]
) -> None:
    """Whatever else a scenario is: no forecast of float32 by plain SGD stands for it."""
    if system.any_recipe:
        return
    for plain in (scenario(2), replicas(1), replicas(2)):
        load = plain.workload.model_copy(update=recipe)
        rests = system.requires(plain.model_copy(update={"workload": load}))
        assert isinstance(rests, Refusal)
        expected = f"it knows training in float32 by plain SGD, not {load.recipe}"
        assert rests.foreign or rests.reason == expected


@SYSTEM
def test_one_device_alone_is_no_replica(system: System) -> None:
    replica = replicas(1)
    alone = replica.model_copy(
        update={"strategy": Strategy(kind="single", workers=1), "link_mbps": None}
    )
    assert system.any_recipe or isinstance(system.requires(alone), Refusal)


@pytest.mark.parametrize(
    "fields",
    [
        {"worker": "emu.avx2.s15", "server": "emu.server", "link_mbps": 200},
        {"worker": "emu.avx2.s15 + emu.sse41.s15", "server": "emu.server", "link_mbps": 200},
        {"worker": "emu.avx2.s15", "strategy": "all_reduce", "link_mbps": 200},
        {
            "framework": "pytorch",
            "worker": "emu.avx2.s15",
            "strategy": "all_reduce",
            "link_mbps": 500,
        },
        {"framework": "pytorch", "worker": "g5.12xlarge + p3.8xlarge", "strategy": "all_reduce"},
        {"framework": "pytorch", "worker": "p5.48xlarge", "strategy": "all_reduce"}
        | {"devices_per_node": 8, "precision": "bfloat16"},
        {"framework": "pytorch", "worker": "p3.8xlarge", "strategy": "all_reduce"}
        | {"devices_per_node": 4, "precision": "bfloat16"},
    ],
    ids=["servers", "mixed with servers", "tensorflow", "pytorch", "mixed", "eight", "no units"],
)
def test_what_is_refused_is_refused_of_more_nodes_of_the_same_types(fields: dict[str, Any]) -> None:
    """`forecasting.scope` asks a system about one number of nodes where that is refused."""
    network = {"dnn": "small_cnn", "image_size": 32, "batch_size": 8, "workers": [2, 4, 8]}
    curve = Curve.model_validate(network | fields)
    for system in SYSTEMS:
        answers = [system.requires(scenario) for scenario in curve.scenarios("loopback")]
        refused = {answer if isinstance(answer, Refusal) else None for answer in answers}
        assert len(refused) == 1, system.name
