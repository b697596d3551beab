"""What holds for every command: help with an example, versions, errors as one line."""

import re
import subprocess
from pathlib import Path

import pytest

from pipelines.cli import main as command_line
from pipelines.cli.main import main
from scripts.reference_pages import commands
from tests.pipelines.ran import Stepcast, modules_after

COMMANDS = [name.removeprefix("stepcast ") for name, _ in commands()]
HEAVY = {"boto3", "dagster", "duckdb", "fastapi", "matplotlib", "numpy", "pandas", "polars"} | {
    "pyarrow", "scipy", "tensorflow", "torch",
}  # fmt: skip
"""What help needs none of, and what takes seconds to import."""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(stepcast: Stepcast, command: str) -> None:
    assert f"Example: stepcast {command}" in stepcast(*command.split(), "--help").printed


@pytest.mark.parametrize("mode", [(), ("reduce-overhead",)])
def test_a_mode_of_compiling_may_be_left_out(mode: tuple[str, ...], stepcast: Stepcast) -> None:
    asked = ("--framework", "pytorch", "--image-size", "64", "--batch-size", "8")
    nodes = ("--dnn", "resnet18", "--worker", "emu.avx512.s15")
    answer = stepcast("predict", "--compiled", *mode, *asked, *nodes)
    told = f"--compiled: {(*mode, 'default')[0]} is of GPUs, and emu.avx512.s15 has none"
    assert answer.code == 2 and told in answer.err


def test_help_lists_the_commands(stepcast: Stepcast) -> None:
    assert all(f"\n  {command} " in stepcast("--help").printed for command in command_line.COMMANDS)


def test_help_imports_nothing_that_commands_work_with(tmp_path: Path) -> None:
    of_commands = (f"{name} --help" for name in ("bench", "run", "seal", "sweep", "train"))
    assert not modules_after(tmp_path, "--help", "--version", *of_commands) & HEAVY


@pytest.mark.parametrize("name", command_line.COMMANDS)
def test_the_summary_of_a_command_is_the_first_sentence_of_its_help(name: str) -> None:
    summary = command_line.summary(name)
    assert command_line.load_command(name).get_short_help_str(limit=200) == summary


def test_the_version_is_the_projects(stepcast: Stepcast) -> None:
    assert re.fullmatch(r"stepcast \d+\.\d+\.\d+\n", stepcast("--version").printed)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nothing"], "No such command 'nothing'; `stepcast --help` says more"),
        (["recommend", "--capacty", "a=1"], "No such option: --capacty (Possible options: --capac"),
        (["run", "a", "b"], "Got unexpected extra argument"),
        (["run", "--backend", "cloud"], "Invalid value for '--backend'"),
        (["sql"], "Missing argument 'statement'; `stepcast sql --help` says more"),
        (["predict", "resnet50", "--workers", "2"], "resnet50 is a network: give it as `--dnn "),
        (["predict", "resnet500"], "resnet500 does not exist: expected a file of templates; a net"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(
    stepcast: Stepcast, arguments: list[str], expected: str
) -> None:
    assert stepcast(*arguments).refusal.startswith(f"stepcast: {expected}")


@pytest.mark.parametrize("group", [[], ["fleet"]])
def test_nothing_asked_is_answered_by_help(stepcast: Stepcast, group: list[str]) -> None:
    answer = stepcast(*group)
    assert (answer.code, answer.out) == (2, "")
    assert "Options:" in answer.err


def test_our_own_errors_are_one_line_and_exit_1(
    stepcast: Stepcast, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Path:
        raise TypeError("a bug\nof two lines")

    monkeypatch.setattr("pipelines.cli.query.home", broken)
    answer = stepcast("accuracy")
    assert (answer.code, answer.err) == (
        1,
        "stepcast: unexpected TypeError: a bug of two lines; "
        "`stepcast --debug …` shows where it happened\n",
    )
    with pytest.raises(TypeError):
        main(["--debug", "accuracy"])


def test_what_a_killed_command_left_goes_with_the_next_one_and_reap_names_it(
    stepcast: Stepcast, home: Path
) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    left = home / f".tmp-{ended.pid}-0123456789abcdef0123456789abcdef"
    for command, told in ((["node-types"], ""), (["reap"], f"removed {left.name}")):
        left.mkdir()
        (left / "spilled").write_bytes(bytes(1000))
        assert told in stepcast(*command).printed
        assert not left.exists()
