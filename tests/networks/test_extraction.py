import gzip
import json
import os
import resource
import secrets
import signal
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from networks import extraction, kept_graphs
from networks.catalogue import UnknownNetwork
from networks.extraction import extract_graph, primitive_graphs, step_graphs
from networks.kept_graphs import GraphCache, digest, keep, keep_in, kept
from networks.operation_graph import operation_graph
from networks.own_model import OwnModel
from networks.primitives import Primitive, PrimitiveGraph
from networks.pytorch_graph import pytorch_graph

eventually = retry(
    retry=retry_if_exception_type(AssertionError), stop=stop_after_delay(60), wait=wait_fixed(0.05)
)


def test_a_child_process_extracts_the_same_graph(graph: Any) -> None:
    extracted = extract_graph("small_cnn", 4, 32)
    assert extracted == operation_graph("small_cnn", 4, 32)
    assert extract_graph("small_cnn", 4, 32) is extracted


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the commands of child processes, as they are started; nothing is at hand."""
    started: list[list[str]] = []
    start = subprocess.Popen

    def noted(command: list[str], **options: Any) -> Any:
        started.append(command)
        return start(command, **options)

    monkeypatch.setattr(subprocess, "Popen", noted)
    _forget(monkeypatch)
    return started


def test_one_child_extracts_several_and_a_new_process_reads_them(
    folder: Path, children: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [("small_cnn", 3, 32), ("small_cnn", 5, 32), ("squeezenet", 3, 64)]
    graphs = step_graphs(wanted, "pytorch")
    assert graphs == {key: pytorch_graph(*key) for key in wanted}
    assert step_graphs(wanted[1:], "pytorch") == {key: graphs[key] for key in wanted[1:]}
    _forget(monkeypatch)
    assert step_graphs(wanted, "pytorch") == graphs
    assert len(children) == 1
    assert [path.name for path in folder.iterdir()] == [digest()]


def made_up(dnn: str, image_size: int) -> PrimitiveGraph:
    """Return a graph of one node."""
    return PrimitiveGraph(dnn, image_size, (Primitive("input"),), (), 0)


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return what children are asked to trace; two graphs stay at hand."""
    requests: list[list[str]] = []

    @contextmanager
    def told(_: str, arguments: list[str], sharing: int) -> Iterator[Callable[[], list[str]]]:
        requests.append(arguments[1:])
        yield lambda: [made_up(*_named(word)).to_json() for word in arguments[1:]]

    monkeypatch.setattr(kept_graphs, "extracting", told)
    cache = GraphCache[Any, PrimitiveGraph]("primitives", PrimitiveGraph.of, at_hand=2, at_once=9)
    monkeypatch.setattr(extraction, "_PRIMITIVES", cache)
    return requests


def _named(word: str) -> tuple[str, int]:
    dnn, _, image_size = word.partition(":")
    return dnn, int(image_size)


def test_the_primitives_that_were_asked_for_last_are_kept(traced: list[list[str]]) -> None:
    """Clients of the service choose sides of images by the thousand."""
    for image_size in (32, 40, 32, 48):
        primitive_graphs([("small_cnn", image_size)])
    assert traced == [["small_cnn:32"], ["small_cnn:40"], ["small_cnn:48"]]
    primitive_graphs([("small_cnn", 32), ("small_cnn", 48)])
    assert len(traced) == 3
    many = [("small_cnn", image_size) for image_size in (32, 56, 64)]
    assert primitive_graphs(many) == {key: made_up(*key) for key in many}
    assert traced[3:] == [["small_cnn:56", "small_cnn:64"]]
    primitive_graphs(many)
    assert traced[4:] == [["small_cnn:32"]]


def test_many_graphs_are_divided_among_a_child_a_core(
    traced: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    many = [("small_cnn", image_size) for image_size in range(32, 32 + 2 * 11, 2)]
    assert primitive_graphs(many) == {key: made_up(*key) for key in many}
    words = [f"small_cnn:{image_size}" for _, image_size in many]
    assert sorted(traced) == [words[:6], words[6:]]


def test_users_models_stay_but_for_the_latest_forgotten(traced: list[list[str]]) -> None:
    """Nobody could trace them again."""
    first, second, third = (made_up(f"own-forget-{n}", 32) for n in range(3))
    for own in (first, second, third, first):
        extraction.register_own_model(OwnModel(own.dnn, "pytorch", 32, 0, own, {8: "why"}))
    extraction.forget_own_models(but=2)
    assert extraction.own_step(first.dnn, 8) == extraction.own_step(third.dnn, 8) == "why"
    assert primitive_graphs([(first.dnn, 32)]) == {(first.dnn, 32): first}
    assert traced == []
    assert "was not traced" in str(extraction.own_step(second.dnn, 8))
    with pytest.raises(UnknownNetwork, match="of which only its name is kept"):
        primitive_graphs([(second.dnn, 32)])


@pytest.mark.parametrize(
    ("module", "name", "value", "told"),
    [
        (sys, "executable", "/bin/false", "graph of squeezenet could not be extracted: it said"),
        (kept_graphs, "_TIMEOUT_S", 0.01, r"graph of squeezenet .* extracted within 0\.01 s"),
    ],
)
def test_a_child_that_fails_or_takes_too_long_is_told(
    module: Any, name: str, value: object, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, value)
    with pytest.raises(RuntimeError, match=told):
        extract_graph("squeezenet", 3, 33)


def test_children_end_where_nobody_waits_for_them_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several, the others where one takes too long."""
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    started, start = list[Any](), subprocess.Popen

    def noted(*command: Any, **options: Any) -> Any:
        started.append(start(*command, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", noted)
    monkeypatch.setattr(kept_graphs, "_TIMEOUT_S", 0.5)
    cache = GraphCache[Any, PrimitiveGraph]("primitives", PrimitiveGraph.of, at_hand=2, at_once=1)
    with pytest.raises(RuntimeError, match="could not be extracted"):
        cache.get([("small_cnn", 32), ("small_cnn", 40)])
    assert [child.poll() for child in started] == [-signal.SIGKILL] * 2


def test_unknown_networks_start_no_child() -> None:
    with pytest.raises(UnknownNetwork, match="small_cmm"):
        extract_graph("small_cmm", 4, 32)
    with pytest.raises(ValueError, match="at least 16 pixels"):
        extract_graph("small_cnn", 4, 8)


def test_a_child_does_not_outlive_who_waits_for_it(tmp_path: Path) -> None:
    """However that ends."""
    slow, begun = tmp_path / "python", tmp_path / "begun"
    slow.write_text(f"#!/bin/sh\necho $$ > {begun}\nexec sleep 600\n")
    slow.chmod(0o755)
    code = f"""
import sys
from networks import extraction
sys.executable = {str(slow)!r}
extraction.primitive_graphs([("vgg11", 64)])
"""
    waits = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2])

    @eventually
    def child() -> int:
        assert begun.exists() and begun.read_text().endswith("\n")
        return int(begun.read_text())

    pid = child()
    waits.kill()
    waits.wait()

    @eventually
    def is_gone() -> None:
        stat = Path(f"/proc/{pid}/stat")
        assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"

    is_gone()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder in which this process keeps graphs during a test."""
    keep_in(tmp_path / "graphs")
    yield tmp_path / "graphs"
    keep_in(None)


def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be as a new process."""
    for name, cache in extraction.__dict__.items():
        for each in cache.values() if name == "_STEP_GRAPHS" else [cache]:
            if isinstance(each, GraphCache):
                monkeypatch.setattr(each, "_latest", OrderedDict())


def test_graphs_of_other_code_are_not_read_and_go(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep("graph", "{}")
    monkeypatch.setattr(kept_graphs, "digest", lambda: "of-other-code")
    assert kept("graph") is None
    keep("graph", "{}")
    assert kept("graph") == {}
    assert [path.name for path in folder.iterdir()] == ["of-other-code"]


def test_a_damaged_graph_is_none(folder: Path) -> None:
    keep("graph", "{}")
    (file,) = (folder / digest()).iterdir()
    for damaged in (file.read_bytes()[:12], b"", b"no gzip", gzip.compress(b"[1")):
        file.write_bytes(damaged)
        assert kept("graph") is None


def test_a_graph_with_any_flipped_bit_is_none_or_as_it_was(folder: Path) -> None:
    fields = {"nodes": [[name, 3 * number] for number, name in enumerate("abcdefghij" * 3)]}
    keep("graph", json.dumps(fields))
    (file,) = (folder / digest()).iterdir()
    whole = file.read_bytes()
    read = []
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        file.write_bytes(damaged)
        read.append(kept("graph"))
    assert all(graph in (None, fields) for graph in read)
    assert read.count(None) > len(read) / 2
    keep("graph", json.dumps(fields))
    assert kept("graph") == fields


def test_a_graph_that_a_full_disk_cuts_leaves_nothing(folder: Path) -> None:
    keep("other", "{}")
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, usual[1]))
    try:
        keep("graph", json.dumps(secrets.token_hex(1000)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert [file.name for file in (folder / digest()).iterdir()] == ["other.json.gz"]


def test_a_graph_that_says_something_else_is_extracted_again(
    folder: Path, traced: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = primitive_graphs([("small_cnn", 32)])
    _forget(monkeypatch)
    assert primitive_graphs([("small_cnn", 32)]) == graphs
    assert len(traced) == 1
    (file,) = (folder / digest()).iterdir()
    file.write_bytes(gzip.compress(b"[1]"))
    _forget(monkeypatch)
    assert primitive_graphs([("small_cnn", 32)]) == graphs
    assert len(traced) == 2


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    keep_in(tmp_path / "file")
    try:
        keep("graph", "{}")
        assert kept("graph") is None
    finally:
        keep_in(None)
