"""Execution traces: outermost calls, the tensors between them, both schemas."""

import json
from pathlib import Path
from typing import Any

import pytest

from profilers.readers.imported import Imported
from tests.profilers.readers.imports import imported, only
from warehouse.records import BadInput

CONV = "aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1])"
ADD_ = "aten::_foreach_add_.Scalar(Tensor(a!)[] self, *, Scalar alpha=1) -> ()"
RELU = "aten::relu(Tensor self) -> Tensor"


def tensor(number: int, elements: int, device: str = "cuda:0") -> list[Any]:
    return [number, 100 + number, 0, elements, 4, device]


def sides(values: list[Any], shapes: list[Any], types: list[str]) -> dict[str, list[Any]]:
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
def run(file: Path) -> Imported:
    file.write_text(json.dumps({"schema": "1.1.0-chakra.0.0.4", "pid": 5, "nodes": NODES}))
    return only("execution-trace", file)


def test_the_outermost_calls_are_operations(run: Imported) -> None:
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


def test_edges_lead_from_the_last_writer(run: Imported) -> None:
    # relu reads what conv2d returned; the other one reads what _foreach_add_ wrote in place.
    assert run.tables["edge"].rows() == [(0, 1), (2, 3)]


def test_arguments_have_the_names_of_the_schema(run: Imported) -> None:
    shapes = run.tables["operation_shape"].row(0, named=True)
    assert json.loads(shapes["attributes"]) == {"stride": [2, 2]}
    assert json.loads(shapes["inputs"]) == [[2, 3], [3, 3], [], [[], []]]
    assert json.loads(shapes["outputs"]) == [[2, 2]]
    alpha = json.loads(run.tables["operation_shape"]["attributes"][2])
    assert alpha == {"alpha": 0.5}


def test_the_first_schema_says_the_same(file: Path, run: Imported) -> None:
    old = [
        {
            "id": one["id"],
            "name": one["name"],
            "parent": one["ctrl_deps"],
            "op_schema": one["attrs"][1]["value"],
            **{
                f"{side}{name}": one[f"{side}s"][key]
                for side in ("input", "output")
                for name, key in (("s", "values"), ("_shapes", "shapes"), ("_types", "types"))
            },
        }
        for one in NODES
    ]
    file.write_text(json.dumps({"schema": "1.0.1", "nodes": old}))
    tables = only("execution-trace", file).tables
    assert all(tables[name].equals(frame) for name, frame in run.tables.items())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"traceEvents": []}, "no operator among its nodes"),
        ({"nodes": [{"id": 1, "name": "aten::relu"}]}, "node's 'parent' is missing"),
        ({"nodes": [{**NODES[2], "inputs": sides([5], [[]], [FLOAT])}]}, "of another kind"),
    ],
)
def test_what_is_refused(file: Path, content: object, message: str) -> None:
    file.write_text(json.dumps(content))
    with pytest.raises(BadInput, match=message):
        imported("execution-trace", file)
