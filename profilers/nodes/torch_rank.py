"""A rank of PyTorch: it meets the others, connects with some of them, and all-reduces buffers.

Times are nanoseconds of the clock of rank 0.
"""

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

from profilers.nodes.program import Say, serve

TIMEOUT_S = 300.0
_EXCHANGES = 20
"""Questions for the time of rank 0; the one that was answered soonest counts."""


class Rank:
    """One rank, and the commands it obeys.

    After `join`, `device` is what it computes on; after `group`, `groups` has one process group for
    each transfer at once, and `control` another one, always of Gloo.

    Args:
        config: of its program: its threads, and which GPU of its node is its `device`.
        say: answers the controller.
    """

    def __init__(self, config: dict[str, Any], say: Say) -> None:
        import torch
        import torch.distributed as dist

        torch.set_num_threads(config["threads"])
        # TCPStore is exported, but not for type checkers.
        self._dist: Any = dist
        self._torch, self._say, self._gpu = torch, say, config["device"]
        self._offset_ns = 0
        self.control: Any = None
        self.groups: list[Any] = []

    def commands(self) -> dict[str, Callable[..., None]]:
        """Return what it obeys, by name."""
        return {"join": self.join, "group": self.group, "reduce": self.reduce}

    def join(self, rank: int, ranks: int, library: str, address: str, port: int) -> None:
        """Meet the other ranks at a store of rank 0, and compare clocks with it."""
        timeout = timedelta(seconds=TIMEOUT_S)
        store = self._dist.TCPStore(address, port, ranks, is_master=rank == 0, timeout=timeout)
        self._dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
        self._library, self.device = library, self._torch.device("cpu")
        if library == "nccl":
            self.device = self._torch.device("cuda", self._gpu)
            self._torch.cuda.set_device(self.device)
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        store.set(f"boot/{rank}", boot)
        of_rank = [store.get(f"boot/{other}").decode() for other in range(ranks)]
        # Programs of one kernel share its clock: nothing that is measured could be as exact.
        for other in (other for other in range(1, ranks) if of_rank[other] != of_rank[0]):
            if rank == 0:
                self._tell_time(other)
            elif rank == other:
                self._offset_ns = clock_offset_ns(self._ask_time())
        self._say("joined", offset_ns=self._offset_ns)

    def group(self, members: list[int], concurrent: int) -> None:
        """Connect some ranks, once for each transfer at once; all ranks take part.

        What was connected before is not any more: it would slow down whatever comes after it.
        """
        for group in self._groups():
            self._dist.destroy_process_group(group)
        self.control = self._dist.new_group(members, backend="gloo")
        self.groups = [
            self._dist.new_group(members, backend=self._library) for _ in range(concurrent)
        ]
        if self._dist.get_rank() in members:
            for group in self.groups:
                total = self._torch.tensor([float(self._dist.get_rank())], device=self.device)
                self._dist.all_reduce(total, group=group)
                if total.item() != sum(members):
                    raise RuntimeError(f"{self._library} sums {members} to {total.item():g}")
        self._say("grouped")

    def _groups(self) -> list[Any]:
        """Return the groups of which this rank is a member."""
        none = (None, self._dist.GroupMember.NON_GROUP_MEMBER)
        return [group for group in (self.control, *self.groups) if group not in none]

    def barrier(self) -> None:
        """Wait until the device has settled, and then for the other members."""
        self.settle()
        self._dist.barrier(self.control)

    def settle(self) -> None:
        """Wait until the device has done everything."""
        if self.device.type == "cuda":
            self._torch.cuda.synchronize(self.device)

    def reduce(self, size_bytes: int, concurrent: int, times: int) -> None:
        """All-reduce buffers together, some times; say when each started and ended."""
        torch = self._torch
        buffers = [
            torch.zeros(size_bytes // 4, dtype=torch.float32, device=self.device)
            for _ in range(concurrent)
        ]
        measured = [self._reduce_together(buffers) for _ in range(times)]
        self._say(
            "reduced",
            starts_ns=[starts for starts, _ in measured],
            ends_ns=[ends for _, ends in measured],
        )

    def reduce_until(self, size_bytes: int, finished: Event, seconds: list[float]) -> None:
        """All-reduce a buffer again and again until all ranks have finished.

        Its first element counts the ranks that have, so that all stop after the same number.

        Args:
            size_bytes: of the buffer.
            finished: set once this rank has.
            seconds: appended to: what each all-reduce took that ended before this rank had.
        """
        torch = self._torch
        buffer = torch.zeros(size_bytes // 4, dtype=torch.float32, device=self.device)
        ranks = self._dist.get_world_size(self.groups[0])
        have_finished = 0.0
        while have_finished < ranks:
            buffer[0] = float(finished.is_set())
            started_s = time.monotonic()
            self._dist.all_reduce(buffer, group=self.groups[0])
            have_finished = buffer[0].item()
            if not finished.is_set():
                seconds.append(time.monotonic() - started_s)

    def _reduce_together(self, buffers: Sequence[Any]) -> tuple[list[int], list[int]]:
        works, starts, ends = [], [], []
        self.barrier()
        # In one order on all ranks: NCCL's groups would wait for each other otherwise.
        for group, buffer in zip(self.groups, buffers, strict=False):
            starts.append(self._now_ns())
            works.append(self._dist.all_reduce(buffer, group=group, async_op=True))
        for work in works:
            work.wait()
            self.settle()
            ends.append(self._now_ns())
        return starts, ends

    def _now_ns(self) -> int:
        return time.monotonic_ns() + self._offset_ns

    def _tell_time(self, rank: int) -> None:
        for _ in range(_EXCHANGES):
            self._dist.recv(self._torch.zeros(1, dtype=self._torch.int64), src=rank)
            self._dist.send(self._torch.tensor([time.monotonic_ns()]), dst=rank)

    def _ask_time(self) -> list[tuple[int, int, int]]:
        exchanges = []
        for _ in range(_EXCHANGES):
            clock_ns = self._torch.zeros(1, dtype=self._torch.int64)
            asked_ns = time.monotonic_ns()
            self._dist.send(clock_ns, dst=0)
            self._dist.recv(clock_ns, src=0)
            exchanges.append((asked_ns, int(clock_ns.item()), time.monotonic_ns()))
        return exchanges


def clock_offset_ns(exchanges: Sequence[tuple[int, int, int]]) -> int:
    """Return what to add to this clock to get another one's time.

    Args:
        exchanges: when the other was asked, what it said, when that came. Of the quickest, the
            answer is taken to have been given half-way.
    """
    asked_ns, clock_ns, came_ns = min(exchanges, key=lambda exchange: exchange[2] - exchange[0])
    return clock_ns - (asked_ns + came_ns) // 2


if __name__ == "__main__":
    serve(lambda config, say: Rank(config, say).commands())
