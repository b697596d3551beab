import sys
from typing import Any

import pytest

from networks.catalogue import UnknownNetwork
from networks.extraction import extracted
from networks.operation_graph import operation_graph


def test_a_child_process_extracts_the_same_graph(graph: Any) -> None:
    found = extracted("small_cnn", 4, 32)
    assert found == operation_graph("small_cnn", 4, 32)
    assert extracted("small_cnn", 4, 32) is found


def test_what_the_child_said_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(RuntimeError, match="graph of squeezenet could not be extracted: it wrote"):
        extracted("squeezenet", 3, 33)


def test_unknown_networks_start_no_child() -> None:
    with pytest.raises(UnknownNetwork, match="small_cmm"):
        extracted("small_cmm", 4, 32)
    with pytest.raises(ValueError, match="at least 16 pixels"):
        extracted("small_cnn", 4, 8)
