"""What the kernel works on: a job, which stays as it is, and the state of its simulation.

Classes that derive from `Fields` describe records: numba sees arrays of them, and their fields as
attributes. Fields that end in `_at` say where something of theirs starts in an array of all.

Operations are numbered by position: group by group of workers, and there by when they usually run,
so that what is needed together lies together; their `number` is the graph's. An event's `code` is
worker, station, number and position in one, so that codes compare as events tie. A chunk's `key` is
rank, arrival, position and whether this is its second service: keys compare as queues are served.
"""

from typing import Annotated, NamedTuple, Protocol, TypeAlias, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Shorts: TypeAlias = NDArray[np.int32]
T_co = TypeVar("T_co", covariant=True)

Short: TypeAlias = Annotated[int, np.int32]

OPERATION_BITS, STATION_BITS, ARRIVAL_BITS = 20, 10, 21
OPERATION_MASK, STATION_MASK = (1 << OPERATION_BITS) - 1, (1 << STATION_BITS) - 1
NEXT_STEP, RELEASE = -1, -2
STATION_OFFSET = 2
STATION_AT = 2 * OPERATION_BITS
WORKER_AT = STATION_AT + STATION_BITS
NUMBERS_MASK = (1 << STATION_AT) - 1
NOTHING = -1
UNSHARED = -1
"""In `LaneFields.row`: what runs there is only delayed."""


class Records(Protocol[T_co]):
    """An array of records."""

    def __getitem__(self, index: int) -> T_co: ...
    def __len__(self) -> int: ...


class Fields:
    """A record of integers and floats, of 8 bytes unless they are `Short`."""

    @classmethod
    def zeros(cls, count: int) -> NDArray[np.void]:
        """Return an array of records, all fields 0."""
        kinds = {int: np.int64, float: np.float64, Short: np.int32}
        hints = get_type_hints(cls, include_extras=True)
        fields = [(name, kinds[hint]) for name, hint in hints.items()]
        return np.zeros(count, np.dtype(fields, align=True))


class OperationFields(Fields):
    """What the graph says; the next operation's fields say where this one's end."""

    station: Short
    predecessors: Short
    successors_at: Short
    touched_at: Short  # stations where its end may let something start
    chained: Short  # the operation that follows at once, whose end alone is an event; or `NOTHING`
    code: int  # of its events, without the worker


class TimingFields(Fields):
    """An operation in a profiled step: seconds, or bytes of a transfer, and its turn in a queue."""

    work: float
    rank: Short


class WorkerFields(Fields):
    """One worker, what its group does, and its current step.

    Where something is by operation, `_at` is the place of the operation at position 0, whoever's.
    """

    steps: int
    operations: int  # of a step
    roots: int  # of a step
    roots_at: int  # of the first profiled step
    profiled_at: int  # timings of the first profiled step
    rank_of_served: int  # of streams that wait for their second service
    completed: int
    unfinished: int
    arrivals: int  # chunks queued in this step
    released: int  # roots of this step
    profile: int  # the profiled step that is repeated
    timings_at: int  # of that step
    waiting_at: int
    lanes_at: int
    timed_at: int
    timed: int
    awaited_s: float  # when its next root is released or, after the last one, its next step starts
    awaited: int  # the code of that event


class LaneFields(Fields):
    """What one worker does at one station."""

    is_link: int
    is_uplink: int
    server: int
    row: int
    is_limited: int  # to one chunk at a time
    running: int
    queue_at: int
    served: int  # of `queued` keys since the queue was last empty
    queued: int
    weight: float  # of what runs, where it shares
    standing: float  # factor of the weight, for coming late
    since_s: float  # when it last began after a pause
    ended_s: float  # when the last chunk ended
    sending: float  # bytes of the chunk that a link sends, and of what is left for a second service
    left: float
    start_s: float


class RowFields(Fields):
    """Something shared: a worker's cores (rows as workers), then links.

    Flows are a heap of `SimulationState.heap` or, where links are shared jointly, connections.
    """

    capacity: float
    cap: float  # what a flow of weight 1 gets at most
    speed: float  # what a flow of weight 1 gets
    flows_at: int
    flows: int
    weights: float  # of its flows together
    virtual: float
    as_of_s: float
    joint: int
    joined: int  # whether a connection was added, or has another weight, since rates were set
    ended: int  # connections that ended since then
    first: int  # the connection that ends next
    is_uplink: int
    opposite: int  # row of the other direction, where that makes a difference; or `UNSHARED`


class ConnectionFields(Fields):
    """A worker and a server between which something is sent."""

    code: int
    worker: int
    server: int
    left_bytes: float
    rate_Bps: float
    drawn: float  # weight without the measured share
    weight: float
    since_s: float  # when the worker last began to use the server's link after a pause
    ended: int
    rising: int


class NextEventFields(Fields):
    """What happens when: in seconds or, for flows of a row, in its virtual time.

    Times are 0 or more, so their bits compare as they do, and processors compare and choose whole
    numbers sooner than floats. Each level of a heap waits for that.
    """

    time_bits: int
    code: int


class SimulationJob(NamedTuple):
    """What is simulated: W workers, n operations of all groups.

    P counts the operations of all profiled steps, R their roots.
    """

    operations: Records[OperationFields]  # n + 1
    successors: Shorts
    touched: Shorts
    timings: Records[TimingFields]  # P
    roots: Shorts  # R, by release within a profiled step
    release_s: Floats  # R
    sampled: Shorts  # (W, steps)
    gap_s: Floats  # (W, steps)
    weights: Floats  # (2, W, steps): of a worker's transfers down and up
    newcomer: Floats  # W + 1: factor of a transfer's weight, by how many it found
    newcomer_pause_s: float  # after which a worker is a newcomer again
    servers: int
    speeds_Bps: Floats  # (2, servers + W): of servers' and workers' links down and up
    two_servers: bool
    shares: Floats  # (2, 2 W): of n = 1, 2 … W flows down and up: efficiency, and the share of each
    opposed: Floats  # (2, W + 1): of its link, what a flow gets if so many go the other way
    window_bytes: float
    record: bool


class SimulationState(NamedTuple):
    """Where the simulation is, and what happened."""

    workers: Records[WorkerFields]
    lanes: Records[LaneFields]
    rows: Records[RowFields]
    waiting: Shorts  # of each worker's operations: predecessors that have not completed
    queue: Ints  # twice as many sorted keys, a queue for each lane
    heap: Records[NextEventFields]  # heaps of each worker's timed events and of each row's flows
    connections: Records[ConnectionFields]
    of_server: Ints  # connections of each server
    left_Bps: Floats  # of each server's link and each worker's
    rising: Floats  # weights of the connections of those links whose rate still rises
    changed: Ints  # [0] counts rows beyond the workers' whose flows changed, which follow
    tournament: Records[NextEventFields]  # [1] is the first of all; leaves are the second half
    finished: Shorts  # operations that one event completes
    starts_s: Floats  # (W, steps)
    ends_s: Floats  # (W, steps)
    chunk_start_s: Floats  # of each worker's operations, where intervals are recorded
    kept: Ints  # [0] counts intervals
    recorded: Ints  # (chunks, 3): worker, step, operation
    recorded_s: Floats  # (chunks, 3): start, end, bytes
