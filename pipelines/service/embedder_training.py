"""Training an embedder as a run of Dagster's.

`python -m pipelines.service.embedder_training TYPE MINUTES [FOLDER]`; the service starts it.
"""

import signal
import sys
from pathlib import Path

from assets.resources import turn
from pipelines import dagster_history, execution
from pipelines.cli.errors import explain
from studies.messages import Progress
from warehouse.home import home


class _StatusProgress(Progress):
    def say(self, text: str) -> None:
        """Tell it to who started this program."""
        print(text, file=sys.stderr, flush=True)  # noqa: T201

    warn = say


def main() -> None:
    """Train; what went wrong is one line.

    Raises:
        SystemExit: it failed, or was interrupted.
    """
    # A process that is started in the background ignores Ctrl-C; and SIGTERM shall be one.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    name, minutes, *source = sys.argv[1:]
    progress = _StatusProgress()
    try:
        with turn(home(), progress.say), dagster_history.instance(home()) as instance:
            folder = Path(source[0]) if source else None
            execution.execute_training(instance, name, float(minutes), folder, progress)
    except KeyboardInterrupt:
        raise SystemExit("interrupted; it goes on where it was when it is begun again") from None
    except Exception as error:
        raise SystemExit(explain(error)[1]) from None


if __name__ == "__main__":
    main()
