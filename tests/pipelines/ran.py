"""The command line in this process, and studies on paper that it has run."""

import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
from dagster import DagsterRunStatus

from assets.resources import OWNER_TAG
from pipelines import dagster_history
from pipelines.cli.main import main
from pipelines.execution import resources
from pipelines.lineage import study_definitions
from tests.synthetic import PaperProbes
from warehouse.home import CHECKOUT

MEASURED = [
    "measure small_cnn 16px b4, unshaped, W=1",
    "measure small_cnn 16px b4, unshaped, W=2",
    "measure alexnet 64px b4, unshaped, W=1",
    "measure alexnet 64px b4, unshaped, W=3",
]
DEMO = CHECKOUT / "studies/demo.yaml"
ASKED = ["links", "profile small_cnn", "profile alexnet", *MEASURED]
"""What probes are asked for in a whole round of the study."""


@dataclass(frozen=True)
class Answer:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


Stepcast = Callable[..., Answer]


@dataclass(frozen=True)
class Ran:
    """A study that has run: its home and file, what probes were asked for, what was printed."""

    home: Path
    study: Path
    asked: tuple[str, ...]
    answer: Answer

    def keep(self, folder: Path) -> None:
        """Write what is known of it beside its home, for other processes."""
        fields = {"study": str(self.study), "asked": self.asked, "answer": asdict(self.answer)}
        (folder / "ran.json").write_text(json.dumps(fields))

    @classmethod
    def kept(cls, folder: Path) -> "Ran":
        """Return the run that was kept in a folder, whose home is there too."""
        fields = json.loads((folder / "ran.json").read_text())
        answer = Answer(**fields["answer"])
        return cls(folder / "home", Path(fields["study"]), tuple(fields["asked"]), answer)


def stepcast(*arguments: str) -> Answer:
    """Run the command line; it changes DAGSTER_HOME."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main(arguments)
    assert isinstance(ended.value.code, int)
    return Answer(ended.value.code, out.getvalue(), err.getvalue())


def run_study(home: Path, study: Path, probes: PaperProbes) -> Ran:
    """Run a study on paper in a home; afterwards the environment is what it was."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEPCAST_HOME", str(home))
        patch.setenv("DAGSTER_HOME", "/nowhere")
        probes.install(patch)
        answer = stepcast("run", str(study))
    return Ran(home, study, tuple(probes.asked), answer)


def statuses(home: Path) -> list[DagsterRunStatus]:
    """Return how the runs of a home ended, the newest first."""
    with dagster_history.instance(home) as instance:
        return [run.status for run in instance.get_runs()]


def leave_dead_run(home: Path) -> str:
    """Make a run that holds the measuring pool, of a process that ended long ago."""
    with dagster_history.instance(home) as instance:
        dead = instance.create_run_for_job(
            job_def=study_definitions(resources(), DEMO).resolve_job_def("demo"),
            tags={OWNER_TAG: "stepcast-1-1-0-run"},
            status=DagsterRunStatus.STARTED,
        )
        storage = instance.event_log_storage
        storage.initialize_concurrency_limit_to_default("measuring_host")
        assert storage.claim_concurrency_slot("measuring_host", dead.run_id, "step").is_claimed
        return dead.run_id
