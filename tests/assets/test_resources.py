"""The study as assets see it throughout one run of Dagster."""

from collections.abc import Callable
from pathlib import Path

from assets.resources import StudyResource, WarehouseResource
from assets.rounds import Round
from tests.synthetic import STUDY, write_study


def test_a_run_keeps_its_round_when_a_probe_completes_it(
    landed_round: Callable[[str], Round], home: Path, tmp_path: Path
) -> None:
    def opened() -> StudyResource:
        warehouse = WarehouseResource(home=str(home))
        return StudyResource(path=str(file), backend="loopback", warehouse=warehouse)

    file = write_study(tmp_path)
    study = opened()
    assert study.open_round().missing
    landed_round(STUDY)
    after = study.open_round()
    assert (after.repeat, after.missing) == (1, ())
    assert opened().open_round().repeat == 2
