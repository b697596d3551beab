"""Sets of runs, packed into one input: seeds, mutations of their Parquet, and loading them."""

import shutil
import tempfile
from functools import cache
from pathlib import Path
from random import Random

from tests.fuzz.landed import changed, connection, land_run, packed, unpacked
from warehouse import loader
from warehouse.landed_files import SUMS, seal
from warehouse.records import BadInput
from warehouse.sets import copy_kept_runs, kept_runs, pack

_RUNS = {"r1": "profile", "r2": "measurement"}


@cache
def seeds() -> tuple[bytes, ...]:
    """Return a folder of sets with a profile and a measurement of one day."""
    with tempfile.TemporaryDirectory() as folder:
        landing, sets = Path(folder, "landing"), Path(folder, "sets")
        for run_id, purpose in _RUNS.items():
            land_run(landing, purpose=purpose, run_id=run_id)
        pack(landing, sets, _RUNS)
        files = sorted(path for path in sets.rglob("*") if path.is_file())
        return (packed({f"{file.relative_to(sets)}": file.read_bytes() for file in files}),)


def mutated(random: Random) -> bytes:
    """Return a folder of sets whose files were changed."""
    files = changed(unpacked(random.choice(seeds())), random)
    if random.random() < 0.9:
        # `load` makes them anew: sums that do not fit hide what comes after they were compared.
        files = {name: content for name, content in files.items() if not name.endswith(SUMS)}
    return packed(files)


def load(path: Path) -> object:
    """Load a packed folder of sets as `stepcast load FOLDER` does."""
    folder, landing = path.with_name("sets"), path.with_name("landing")
    for old in (folder, landing):
        shutil.rmtree(old, ignore_errors=True)
    for name, content in unpacked(path.read_bytes()).items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    for day in folder.iterdir():
        if not (day / SUMS).exists():
            seal(day, durable=False)
    copy_kept_runs(folder, landing, [run.run_id for run in kept_runs(folder)], durable=False)
    report = loader.load(landing, connection())
    if report.quarantined:
        raise BadInput(report.quarantined[0].reason)
    return report
