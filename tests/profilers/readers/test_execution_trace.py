"""Execution traces: outermost calls, the tensors between them, both schemas."""

import json
from pathlib import Path
from typing import Any

import pytest

from profilers.readers.contract import ImportedRun
from tests.profilers.readers.hostile import refused
from tests.profilers.readers.imports import only
from warehouse import limits

CONV = "aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1])"
ADD_ = "aten::_foreach_add_.Scalar(Tensor(a!)[] self, *, Scalar alpha=1) -> ()"
RELU = "aten::relu(Tensor self) -> Tensor"


def tensor(number: int, elements: int, device: str = "cuda:0") -> list[Any]:
    return [number, 100 + number, 0, elements, 4, device]


def sides(values: list[Any], shapes: list[Any], types: list[Any]) -> dict[str, list[Any]]:
    return {"values": values, "shapes": shapes, "types": types}


def node(
    number: int,
    parent: int,
    name: str,
    schema: str = "",
    inputs: dict[str, list[Any]] | None = None,
    outputs: dict[str, list[Any]] | None = None,
) -> dict[str, Any]:
    none = sides([], [], [])
    return {
        "id": number,
        "name": name,
        "ctrl_deps": parent,
        "inputs": inputs or none,
        "outputs": outputs or none,
        "attrs": [
            {"name": "rf_id", "type": "uint64", "value": 0},
            {"name": "op_schema", "type": "string", "value": schema},
        ],
    }


FLOAT = "Tensor(float)"
NODES = [
    node(2, 1, "[pytorch|profiler|execution_trace|thread]"),
    # Parents are written after their children, and the file is not in order.
    node(
        9,
        8,
        "aten::cudnn_convolution",
        "aten::cudnn_convolution(Tensor self) -> Tensor",
        sides([tensor(10, 6)], [[2, 3]], [FLOAT]),
        sides([tensor(12, 4)], [[2, 2]], [FLOAT]),
    ),
    node(
        8,
        2,
        "aten::conv2d",
        CONV,
        sides(
            [tensor(10, 6), tensor(11, 9), "<None>", [2, 2]],
            [[2, 3], [3, 3], [], [[], []]],
            [FLOAT, FLOAT, "None", "GenericList[Int,Int]"],
        ),
        sides([tensor(12, 4)], [[2, 2]], [FLOAT]),
    ),
    node(20, 2, "autograd::engine::evaluate_function: ReluBackward0"),
    node(
        21,
        20,
        "aten::relu",
        RELU,
        sides([tensor(12, 4)], [[2, 2]], [FLOAT]),
        sides([tensor(13, 4)], [[2, 2]], [FLOAT]),
    ),
    node(
        30,
        2,
        "aten::_foreach_add_",
        ADD_,
        sides(
            [[tensor(11, 9), tensor(14, 1)], 0.5],
            [[[3, 3], [1]], []],
            [f"GenericList[{FLOAT},{FLOAT}]", "Double"],
        ),
    ),
    node(
        40,
        2,
        "aten::relu",
        RELU,
        sides([tensor(11, 9)], [[3, 3]], [FLOAT]),
        sides([tensor(15, 9, "cpu")], [[3, 3]], [FLOAT]),
    ),
    node(1, 1, "[pytorch|profiler|execution_trace|process]"),
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "et.json"


@pytest.fixture
def run(file: Path) -> ImportedRun:
    file.write_text(json.dumps({"schema": "1.1.0-chakra.0.0.4", "pid": 5, "nodes": NODES}))
    return only("execution-trace", file)


def test_the_outermost_calls_are_operations(run: ImportedRun) -> None:
    rows = run.tables["operation"].select(
        "operation", "name", "device", "input_bytes", "output_bytes"
    )
    assert rows.rows() == [
        (0, "aten::conv2d#8", "gpu", 60, 16),
        (1, "aten::relu#21", "gpu", 16, 16),
        (2, "aten::_foreach_add_#30", "gpu", 40, 0),
        (3, "aten::relu#40", "gpu", 36, 36),
    ]
    assert run.config == {"schema": "1.1.0-chakra.0.0.4", "pid": "5"}


def test_edges_lead_from_the_last_writer(run: ImportedRun) -> None:
    # relu reads what conv2d returned; the other one reads what _foreach_add_ wrote in place.
    assert run.tables["edge"].rows() == [(0, 1), (2, 3)]


def test_kernels_without_a_schema_are_operations(file: Path) -> None:
    kernel = node(50, 2, "triton_poi_0", inputs=sides([tensor(13, 4)], [[2, 2]], [FLOAT]))
    kernel["attrs"].append({"name": "kernel_backend", "type": "string", "value": "triton"})
    file.write_text(json.dumps({"nodes": [*NODES, kernel]}))
    run = only("execution-trace", file)
    assert run.tables["operation"]["name"][-1] == "triton_poi_0#50"
    assert run.tables["edge"].rows() == [(0, 1), (1, 4), (2, 3)]
    assert run.notes == (
        "what 1 kernels without a schema write is not known: no edge begins there",
    )


def test_nodes_of_autograd_and_ddp_hide_no_operators(file: Path) -> None:
    """They are named as operators are, but have no schema."""
    inside = [
        node(50, 2, "torch::autograd::AccumulateGrad"),
        node(51, 50, "aten::add_", ADD_),
        node(52, 2, "torch::autograd::CppNode<SplitLookupFunction>"),
        node(53, 52, "aten::relu", RELU),
        node(54, 2, "torch::distributed::reducer::mul_out"),
        node(55, 54, "aten::mul", RELU),
        node(56, 2, "somebodys::annotation"),
        node(57, 56, "aten::relu", RELU),
    ]
    alone = node(
        58, 2, "torch::autograd::AccumulateGrad", "", sides([tensor(13, 4)], [[2, 2]], [FLOAT])
    )
    file.write_text(json.dumps({"nodes": [*NODES, *inside, alone]}))
    run = only("execution-trace", file)
    names = ["aten::add_#51", "aten::relu#53", "aten::mul#55", "aten::relu#57"]
    assert run.tables["operation"]["name"].to_list()[4:] == names
    assert run.left_out == {"calls without a schema 'torch::autograd::AccumulateGrad'": 1}


def test_names_tell_operators_where_no_node_has_a_schema(file: Path) -> None:
    nodes = [node(1, 1, "process"), node(2, 1, "torch::autograd::CppNode<F>")]
    file.write_text(json.dumps({"nodes": [*nodes, node(3, 2, "aten::relu")]}))
    run = only("execution-trace", file)
    assert run.tables["operation"]["name"].to_list() == ["aten::relu#3"]


def test_calls_that_are_no_operations_are_counted(file: Path) -> None:
    tensors = sides([tensor(13, 4)], [[2, 2]], [FLOAT])
    others = [
        node(50, 2, "mine", inputs=tensors),
        node(51, 21, "inside of relu", inputs=tensors),
        node(52, 2, "around relu", inputs=tensors),
        node(53, 52, "aten::relu", RELU, tensors),
        node(54, 2, "without tensors"),
        node(55, 2, "ProfilerStep#1"),
        node(56, 2, "ProfilerStep#2"),
    ]
    file.write_text(json.dumps({"nodes": [*NODES, *others]}))
    run = only("execution-trace", file)
    assert run.left_out == {"calls without a schema 'mine'": 1}
    assert run.notes == ("its 2 steps (ProfilerStep) are one graph",)


def test_arguments_have_the_names_of_the_schema(run: ImportedRun) -> None:
    shapes = run.tables["operation_shape"].row(0, named=True)
    assert json.loads(shapes["attributes"]) == {"stride": [2, 2]}
    assert json.loads(shapes["inputs"]) == [[2, 3], [3, 3], [], [[], []]]
    assert json.loads(shapes["outputs"]) == [[2, 2]]
    alpha = json.loads(run.tables["operation_shape"]["attributes"][2])
    assert alpha == {"alpha": 0.5}


def test_the_first_schema_says_the_same(file: Path, run: ImportedRun) -> None:
    old = [
        {
            "id": node["id"],
            "name": node["name"],
            "parent": node["ctrl_deps"],
            "op_schema": node["attrs"][1]["value"],
            **{
                f"{side}{name}": node[f"{side}s"][key]
                for side in ("input", "output")
                for name, key in (("s", "values"), ("_shapes", "shapes"), ("_types", "types"))
            },
        }
        for node in NODES
    ]
    file.write_text(json.dumps({"schema": "1.0.1", "nodes": old}))
    tables = only("execution-trace", file).tables
    assert all(tables[name].equals(frame) for name, frame in run.tables.items())


CALL = NODES[2]


def with_input(value: object, kind: str) -> dict[str, Any]:
    return {**CALL, "inputs": sides([value], [[]], [kind])}


def nested(depth: int) -> list[Any]:
    value: list[Any] = tensor(1, 1)
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ([], "no operator among its nodes"),
        ([{"id": 1, "name": "aten::relu"}], "neither ctrl_deps nor parent"),
        ([CALL, CALL], "node 8 is listed twice"),
        ([{**CALL, "inputs": sides([5], [[]], [])}], "1 values and 0 types"),
        ([with_input([1, 2, 0, 2**40, 2**40, "cpu"], FLOAT)], "beyond 2^63"),
        ([with_input([tensor(i, 2**60) for i in range(9)], f"List[{FLOAT}]")], "beyond 2^63"),
        ([with_input(nested(200), f"List[{FLOAT}]")], "deeper than 64"),
    ],
)
def test_what_is_refused(file: Path, nodes: list[Any], says: str) -> None:
    refused("execution-trace", file, {"schema": "1.1.0", "nodes": nodes}, says)


@pytest.mark.parametrize("ring", [[(8, 9), (9, 8)], [(8, 9), (9, 10), (10, 11), (11, 10)]])
def test_a_node_that_calls_itself_is_refused(file: Path, ring: list[tuple[int, int]]) -> None:
    nodes = [{**CALL, "id": number, "ctrl_deps": parent} for number, parent in ring]
    refused("execution-trace", file, {"nodes": nodes}, "is inside of itself")


def test_arguments_that_no_column_can_hold_are_refused(file: Path) -> None:
    for value in ("[" * 900 + "]" * 900, "1e999"):
        text = json.dumps({"nodes": [with_input("here", "Double")]}).replace('"here"', value)
        refused("execution-trace", file, text.encode(), f"{file} line 1: ")


def test_what_is_kept_is_bounded(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EVENTS", 1)
    refused("execution-trace", file, {"nodes": NODES}, "more than 1 events")
    monkeypatch.undo()
    monkeypatch.setattr(limits, "KEPT_CHARACTERS", 20)
    refused("execution-trace", file, {"nodes": NODES}, "more than 20 characters")


def test_what_a_trace_says_of_itself_is_bounded(file: Path) -> None:
    about = {"schema": "1" * 1_000, "pid": 2**70, "time": [1], "other": "x"}
    file.write_text(json.dumps({**about, "nodes": NODES}))
    assert only("execution-trace", file).config == {"schema": "1" * 100, "pid": str(2**70)}
