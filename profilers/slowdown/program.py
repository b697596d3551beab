"""The program of a rank that trains while it all-reduces.

Started as `python -m profilers.slowdown.program CONFIG_JSON`; see `torch_program.obey`. Commands:
`join`, `group` and `reduce` of `profilers.allreduce.program`, `train` of
`profilers.torch_compute.program`, and `overlap`.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from threading import Event

from profilers.allreduce.program import AllreduceRank, AllreduceRankConfig
from profilers.nodes import torch_program
from profilers.nodes.torch_program import Say
from profilers.nodes.torch_training import Step
from profilers.torch_compute.program import ComputeConfig, Device

LEAST_REDUCED = 4
"""All-reduces that a rank has seen end; the first one does not count."""


@dataclass(frozen=True)
class SlowdownConfig:
    """What both halves of the program must know."""

    rank: AllreduceRankConfig
    compute: ComputeConfig

    def to_json(self) -> str:
        """Encode for the command line."""
        return json.dumps(asdict(self))


class Overlap:
    """A rank and a device in one program, as in data-parallel training."""

    def __init__(self, rank: AllreduceRank, device: Device, say: Say) -> None:
        self._rank, self._device, self._say = rank, device, say

    def overlap(self, batch_size: int, steps: int, size_bytes: int) -> None:
        """Train steps while buffers are reduced all the time; report steps and all-reduces.

        More steps than asked, if fewer than `LEAST_REDUCED` all-reduces have ended by then.
        """
        finished = Event()
        done: list[Step] = []
        reduce_s: list[float] = []
        with ThreadPoolExecutor(1) as thread:
            reducing = thread.submit(self._rank.reduce_until, size_bytes, finished, reduce_s)
            try:
                while len(done) < steps or (len(reduce_s) < LEAST_REDUCED and not reducing.done()):
                    done.append(self._device.trainer.step(batch_size))
            finally:
                finished.set()
            reducing.result()
        self._say("overlapped", steps=[asdict(step) for step in done], reduce_s=reduce_s)


def main() -> None:
    """Run this rank until its controller closes stdin."""
    fields = json.loads(sys.argv[1])
    rank_config = AllreduceRankConfig(**fields["rank"])
    say = torch_program.answers()
    device = Device(ComputeConfig(**fields["compute"]), say)
    rank = AllreduceRank(rank_config, say)
    overlap = Overlap(rank, device, say)
    say("ready", **torch_program.own_facts(rank_config.interface))
    torch_program.obey(
        {
            "join": rank.join,
            "group": rank.group,
            "reduce": rank.reduce,
            "train": device.train,
            "overlap": overlap.overlap,
        }
    )


if __name__ == "__main__":
    main()
