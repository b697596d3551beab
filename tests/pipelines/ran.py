"""The command line in this process, and studies on paper that it has run."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

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

    @property
    def printed(self) -> str:
        """What is printed by a command that ends well."""
        assert self.code == 0, self.err
        return self.out

    @property
    def content(self) -> Any:
        """The same of a command that prints JSON."""
        return json.loads(self.printed)

    @property
    def refusal(self) -> str:
        """The one line that a mistake of the caller's is told in."""
        assert (self.code, self.out) == (2, ""), self
        first, *more = self.err.splitlines()
        assert all(line.startswith("  ") for line in more), self  # of one that is wide
        return " ".join([first, *map(str.strip, more)])


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


_MODULES_AFTER = """
import sys
from pipelines.cli.main import main
for command in sys.argv[1:]:
    try:
        main(command.split())
    except SystemExit as ended:
        assert not ended.code, command
print(*sys.modules, file=sys.stderr)
"""


def modules_after(home: Path, *commands: str) -> set[str]:
    """Return the modules of a fresh interpreter that has run these commands."""
    return set(in_interpreter(_MODULES_AFTER, home, *commands).stderr.split())


def in_interpreter(program: str, home: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a program in a fresh interpreter, at a home; it has to end well within four minutes."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=CHECKOUT,
        env={**os.environ, "STEPCAST_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )


def words(question: Mapping[str, str | None], **changes: str | None) -> list[str]:
    """Return options as they are written, some of them changed; None: left out."""
    named = {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
    given = [(name, value) for name, value in ({**question, **named}).items() if value is not None]
    return [word for pair in given for word in pair]


eventually = retry(
    retry=retry_if_exception_type(AssertionError), stop=stop_after_delay(90), wait=wait_fixed(0.05)
)


class Started:
    """The command line in a process of its own; what it writes to stderr goes to a file.

    `first` is what Python does there before.
    """

    def __init__(self, home: Path, *arguments: str, first: str = "", **environment: str) -> None:
        self._errors = home / f"{'-'.join(arguments[:2]).replace('/', '-')}.stderr"
        code = f"{first}\nfrom pipelines.cli.main import main; main()"
        others = {name: value for name, value in os.environ.items() if "TOKEN" not in name}
        with self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-c", code, *arguments],
                cwd=CHECKOUT,
                env={**others, **environment, "STEPCAST_HOME": str(home)},
                stdout=errors,
                stderr=errors,
            )

    @property
    def told(self) -> str:
        """What it has written."""
        return self._errors.read_text()

    @eventually
    def match(self, pattern: str) -> str:
        """Wait until it has written something; return the first group of the pattern."""
        match = re.search(pattern, self.told)
        assert match or self.process.poll() is not None, self.told
        return match[1] if match else f"ended: {self.told}"

    def end(self, how: signal.Signals) -> tuple[int, str]:
        """Send a signal; return the exit code and the last line."""
        self.process.send_signal(how)
        return self.process.wait(60), self.told.splitlines()[-1]


def run_study(home: Path, study: Path, probes: PaperProbes) -> Ran:
    """Run a study on paper in a home; afterwards the environment is what it was."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEPCAST_HOME", str(home))
        patch.setenv("DAGSTER_HOME", "/nowhere")
        probes.install(patch)
        answer = stepcast("run", str(study))
    return Ran(home, study, tuple(probes.asked), answer)


def statuses(home: Path) -> list[dg.DagsterRunStatus]:
    """Return how the runs of a home ended, the newest first."""
    with dagster_history.instance(home) as instance:
        return [run.status for run in instance.get_runs()]


def leave_dead_run(home: Path) -> str:
    """Make a run that holds the measuring pool, of a process that ended long ago."""
    with dagster_history.instance(home) as instance:
        dead = instance.create_run_for_job(
            job_def=study_definitions(resources(), DEMO).resolve_job_def("demo"),
            tags={OWNER_TAG: "stepcast-1-1-0-run"},
            status=dg.DagsterRunStatus.STARTED,
        )
        storage = instance.event_log_storage
        storage.initialize_concurrency_limit_to_default("measuring_host")
        assert storage.claim_concurrency_slot("measuring_host", dead.run_id, "step").is_claimed
        return dead.run_id
