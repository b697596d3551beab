"""`stepcast history`, on ten equal rounds that were measured."""

import pytest

from tests.pipelines.ran import Ran, Stepcast
from warehouse.sql import read_only

STEADY = ("history", "small_cnn w=2 step_time_s emu.avx512.s15")


def test_every_point_names_its_run(ask: Stepcast) -> None:
    lines = ask(*STEADY).printed.splitlines()
    assert "(2 emu.avx512.s15), step_time_s (" in lines[0]
    assert lines[0].endswith("median 0.4343 s")
    rows = [line.split() for line in lines if "torch_throughput-" in line]
    assert len({row[-1] for row in rows}) == len(rows) == 10
    assert rows[0][0] == "0.4349"
    assert "1 figure of 10 runs" in lines
    assert f"run {rows[0][-1]} small_cnn 32px b12" in ask("history", rows[0][-1]).printed


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["history", "resnet"], "no figure has all words of 'resnet'"),
        (["history", "x-links-6"], "no figure has all words of 'x-links-6'"),
    ],
)
def test_what_is_not_there_is_one_line(ask: Stepcast, arguments: list[str], expected: str) -> None:
    assert expected in ask(*arguments).refusal


def test_a_run_leads_to_all_that_made_it(
    stepcast: Stepcast, first_run: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPCAST_HOME", str(first_run.home))
    rows = read_only(
        first_run.home,
        "SELECT run_id, host_id, host ->> '$.kernel' AS kernel FROM raw.run "
        "WHERE probe = 'tf_throughput' ORDER BY run_id",
    ).to_dicts()
    answer = stepcast("history", rows[0]["run_id"].rpartition("-")[2])
    fields = {
        line.split()[0]: line.split() for line in answer.printed.splitlines() if line[0] == " "
    }
    assert fields["study"][1:] == ["paper,", "round", "1"]
    assert fields["command"][1:]
    assert fields["stepcast"][1] not in ("not", "None")
    assert fields["kernel"][1] == rows[0]["kernel"]
    assert fields["throughput_steps_per_s"][2] == "step/s"
    assert f"host {rows[0]['host_id']}, loopback" in answer.printed
    assert "nothing was paid" in answer.printed
    assert f"{rows[0]['run_id']}/sample.parquet" in answer.printed
