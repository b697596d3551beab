"""Questions in Python, on a few reference runs: frames as commands answer, homes only read."""

import json
import re
import shutil
from pathlib import Path

import pytest

import stepcast
from tests.pipelines.ran import stepcast as command
from warehouse.home import CHECKOUT

QUESTION = {
    "dnn": "small_cnn",
    "framework": "pytorch",
    "image_size": 32,
    "batch_size": 12,
    "link_mbps": 200,
}
WORKERS = {"worker": "emu.avx512.s15", "workers": (2, 4), "systems": ("ideal_scaling", "srift")}


@pytest.fixture
def home(small_history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the history in a home that a test may change."""
    folder = Path(shutil.copytree(small_history, tmp_path / "home"))
    monkeypatch.setenv("STEPCAST_HOME", str(folder))
    return folder


def test_a_frame_has_what_the_command_says_and_a_home_is_only_read(home: Path) -> None:
    for path in (home, *home.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)
    before = {path: path.read_bytes() for path in home.glob("*.duckdb")}
    frame = stepcast.forecast(**QUESTION, **WORKERS, dry_run=True)
    for path in (home, *home.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
    assert {path: path.read_bytes() for path in home.glob("*.duckdb")} == before
    words = "--dnn small_cnn --framework pytorch --image-size 32 --batch-size 12 --link-mbps 200"
    more = "--worker emu.avx512.s15 --workers 2,4 --systems ideal_scaling,srift --dry-run --json"
    told = json.loads(command("predict", *words.split(), *more.split()).out)["forecasts"]
    assert frame["value"].to_list() == [each["value"] for each in told]
    assert frame.select("system", "nodes").rows() == [
        (system, nodes) for nodes in (2, 4) for system in ("ideal_scaling", "srift")
    ]


def test_a_job_has_one_choice(home: Path) -> None:
    ways = stepcast.recommend(
        **QUESTION, samples=100_000, capacity={"emu.avx512.s15": 4}, systems=["srift"]
    )
    assert ways["is_choice"].sum() == 1
    assert set(ways["node_type"]) == {"emu.avx512.s15"}
    (made,) = stepcast.sql("SELECT count(*) AS n FROM pred.recommendation")["n"]
    assert made == 1


def test_what_is_wrong_is_one_line(home: Path) -> None:
    with pytest.raises(stepcast.BadInput, match="batch-size"):
        stepcast.forecast(**QUESTION | {"batch_size": 0}, worker="emu.avx512.s15", workers=2)
    with pytest.raises(stepcast.BadInput, match=r"bach.size") as wrong:
        stepcast.forecast(bach_size=12)
    assert "\n" not in str(wrong.value)
    with pytest.raises(stepcast.BadInput):
        stepcast.sql("DROP TABLE raw.run")


@pytest.mark.exhaustive
def test_the_example_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STEPCAST_HOME", str(tmp_path / "home"))
    page = (CHECKOUT / "docs" / "predict.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(block, {})
    assert "g5.xlarge" in capsys.readouterr().out
