"""Training an embedder as a run of Dagster's.

`python -m pipelines.service.retraining TYPE MINUTES [FOLDER]`; the service starts it.
"""

import signal
import sys
from pathlib import Path

from assets.turns import turn
from pipelines import execution, history
from pipelines.cli.errors import explain
from studies.progress import Progress
from warehouse.home import home


class _Told(Progress):
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
    told = _Told()
    try:
        with turn(home(), told.say), history.instance(home()) as instance:
            folder = Path(source[0]) if source else None
            execution.execute_training(instance, name, float(minutes), folder, told)
    except KeyboardInterrupt:
        raise SystemExit("interrupted; it goes on where it was when it is begun again") from None
    except Exception as error:
        raise SystemExit(explain(error)[1]) from None


if __name__ == "__main__":
    main()
