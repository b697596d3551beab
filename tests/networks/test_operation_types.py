import subprocess
import sys

import pytest

from networks.operation_graph import canonical


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ("Conv2D", "Conv2D"),
        ("_MklNativeConv2D", "Conv2D"),
        ("_MklMatMul", "MatMul"),
        ("_MklNativeFusedConv2D", "_FusedConv2D"),
        ("_FusedConv2D", "_FusedConv2D"),
        ("_MklFusedBatchNormV3", "FusedBatchNormV3"),
        ("_MklNativeFusedBatchNormGradV3", "FusedBatchNormGradV3"),
        ("_MklFusedBatchNormEx", "_FusedBatchNormEx"),
        ("AssignAdd", "AddV2"),
        ("DestroyTemporaryVariable", "Identity"),
        ("_Recv", "_Recv"),
        ("aten::conv2d", "aten::conv2d"),
    ],
)
def test_types_without_their_library(found: str, expected: str) -> None:
    assert canonical(found) == expected
    assert canonical(expected) == expected


def test_names_load_no_framework() -> None:
    program = (
        "import sys, networks.operation_graph;"
        "sys.exit(bool({'tensorflow', 'tf_keras', 'torch'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
