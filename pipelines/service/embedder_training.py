"""Training an embedder in a process of its own, which the service starts.

`python -m pipelines.service.embedder_training TYPE MINUTES [FOLDER]`
"""

import signal
import sys
from pathlib import Path

from forecasting import embedders
from pipelines.cli.errors import explain
from profilers.steady.hostlock import host_lock


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def main() -> None:
    """Train while nothing measures on this host; what went wrong is one line.

    Raises:
        SystemExit: it failed, or was interrupted.
    """
    # A process that is started in the background ignores Ctrl-C; and SIGTERM shall be one.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    name, minutes, *folder = sys.argv[1:]
    source = Path(folder[0]) if folder else None
    try:
        with host_lock(_say):
            embedders.train(name, minutes=float(minutes), source=source, say=_say)
    except KeyboardInterrupt:
        raise SystemExit("interrupted; it goes on where it was when it is begun again") from None
    except Exception as error:
        raise SystemExit(explain(error)[1]) from None


if __name__ == "__main__":
    main()
