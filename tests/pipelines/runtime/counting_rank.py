"""A program of a rank that trains nothing: it counts, beats and saves as the real one does."""

import threading
import time
from pathlib import Path

from pipelines.runtime import checkpoints
from pipelines.runtime.rank import TrainingRankConfig, serve
from profilers.nodes.program import Say

STEP_S = 0.02


class CountingRank:
    """Counts iterations."""

    def __init__(self, config: TrainingRankConfig, say: Say) -> None:
        self._config, self._say = config, say
        self._stopped = False
        self.step = 0

    def train(
        self,
        rank: int,
        batches: list[int],
        iterations: int,
        incarnation: int,
        address: str,
        port: int,
        checkpoint: str | None,
    ) -> None:
        """Count from a checkpoint on."""
        if checkpoint is not None:
            self.step = int(Path(checkpoint).read_text())

        folder = Path(self._config.folder)
        own = folder / f"count-{incarnation}-{rank}"
        others = [folder / f"count-{incarnation}-{peer}" for peer in range(len(batches))]
        _put(own, self.step)

        def count() -> None:
            while self.step < iterations and not self._stopped:
                time.sleep(STEP_S)
                # As an all-reduce: nobody is ahead of anybody by more than one.
                _put(own, self.step + 1)
                while min(map(_count, others)) <= self.step and not self._stopped:
                    time.sleep(STEP_S / 4)
                self.step += not self._stopped
            if rank == 0 and not self._stopped:
                self._write(asked=False)

        threading.Thread(target=count, daemon=True).start()

    def save(self, from_step: int) -> None:
        """Stop counting and write the count."""
        self._stopped = True
        self._write(asked=True)

    def _write(self, asked: bool) -> None:
        step, config = self.step, self._config
        checkpoints.write(Path(config.folder), step, str(step).encode(), config.keep)
        self._say("saved", step=step, asked=asked, written=True)


def _put(path: Path, step: int) -> None:
    aside = path.with_suffix(".tmp")
    aside.write_text(str(step))
    aside.rename(path)


def _count(path: Path) -> int:
    return int(path.read_text()) if path.exists() else 0


if __name__ == "__main__":
    serve(CountingRank)
