"""What a worker does next: queues, chunks, and operations that wait for others."""

from models.async_sgd.kernel.fabric import disturb, note_pause, start_flow, start_sending
from models.async_sgd.kernel.heaps import inlined, push
from models.async_sgd.kernel.state import (
    ARRIVAL_BITS,
    NOTHING,
    OPERATION_BITS,
    OPERATION_MASK,
    UNSHARED,
    WORKER_AT,
    Ints,
    LaneFields,
    SimulationJob,
    SimulationState,
    WorkerFields,
)


@inlined
def schedule(state: SimulationState, worker: WorkerFields, time_s: float, code: int) -> None:
    """Let something happen to a worker at a time that nothing changes."""
    push(state.heap, worker.timed_at, worker.timed, time_s, code)
    worker.timed += 1


@inlined
def enqueue(
    state: SimulationState,
    worker: WorkerFields,
    lane: LaneFields,
    operation: int,
    rank: int,
    served: int,
) -> None:
    """Let an operation, or what is left of it, wait at its station."""
    order = (rank << ARRIVAL_BITS) | worker.arrivals
    key = (((order << OPERATION_BITS) | operation) << 1) | served
    worker.arrivals += 1
    insert(state.queue, lane, key)


@inlined
def insert(queue: Ints, lane: LaneFields, key: int) -> None:
    """Put a key into a lane's queue, sorted from `served` to `queued`.

    Keys mostly arrive in order, so this beats a heap.
    """
    if lane.served == lane.queued:
        lane.served = lane.queued = 0
    hole = lane.queue_at + lane.queued
    while hole > lane.queue_at + lane.served and queue[hole - 1] > key:
        queue[hole] = queue[hole - 1]
        hole -= 1
    queue[hole] = key
    lane.queued += 1


@inlined
def start_ready(
    job: SimulationJob, state: SimulationState, index: int, operation: int, now_s: float
) -> None:
    """Start an operation that waits for no other one, or let it wait at its station.

    What takes no time waits for `dispatch`, which completes it.
    """
    worker = state.workers[index]
    lane = state.lanes[worker.lanes_at + job.operations[operation].station]
    timing = job.timings[worker.timings_at + operation]
    if lane.is_limited or timing.work <= 0:
        enqueue(state, worker, lane, operation, int(timing.rank), 0)
    else:
        start(job, state, index, lane, now_s, operation, timing.work)


@inlined
def dispatch(
    job: SimulationJob,
    state: SimulationState,
    index: int,
    station: int,
    now_s: float,
    finished: int,
) -> int:
    """Start what waits at a station and has room; append what takes no time to `State.finished`.

    Returns:
        How many operations `State.finished` holds then.
    """
    worker = state.workers[index]
    lane = state.lanes[worker.lanes_at + station]
    while lane.served < lane.queued and not (lane.is_limited and lane.running):
        key = int(state.queue[lane.queue_at + lane.served])
        lane.served += 1
        operation = (key >> 1) & OPERATION_MASK
        work = job.timings[worker.timings_at + operation].work
        if lane.is_link:
            work = next_chunk(job, lane, work, key & 1)
        if work <= 0:
            record(job, state, index, operation, now_s, now_s, work)
            state.finished[finished] = operation
            finished += 1
        else:
            start(job, state, index, lane, now_s, operation, work)
    return finished


@inlined
def next_chunk(job: SimulationJob, lane: LaneFields, size_bytes: float, served: int) -> float:
    """Select what a stream sends: first up to a window, then the rest; return bytes."""
    left = size_bytes - job.window_bytes
    lane.left = 0.0
    lane.sending = size_bytes
    if left > 0:
        lane.left = 0.0 if served else left
        lane.sending = left if served else job.window_bytes
    return lane.sending


@inlined
def start(
    job: SimulationJob,
    state: SimulationState,
    worker: int,
    lane: LaneFields,
    now_s: float,
    operation: int,
    work: float,
) -> None:
    """Let a chunk run: a delay, or a flow of what is shared there."""
    lane.running += 1
    if job.record:
        state.chunk_start_s[state.workers[worker].waiting_at + operation] = now_s
    if lane.row == UNSHARED:
        start_delays(job, state, worker, now_s, operation, work)
        return
    code = (worker << WORKER_AT) | job.operations[operation].code
    row = state.rows[lane.row]
    if lane.is_link:
        drawn = job.weights[lane.is_uplink, worker, state.workers[worker].completed]
        if row.joint:
            start_sending(job, state, row, now_s, code, worker, lane, work, drawn)
        else:
            note_pause(job, lane, now_s, row.flows)
            lane.weight = drawn * lane.standing
    if not row.joint:
        start_flow(state, row, now_s, code, work, lane.weight)
    if lane.row != worker:
        changes(state, lane.row, now_s)


@inlined
def start_delays(
    job: SimulationJob,
    state: SimulationState,
    index: int,
    now_s: float,
    operation: int,
    work: float,
) -> None:
    """Let an operation be delayed, and those that follow at once; the last end is an event.

    Each begins when the one before it ends, so times are added one by one.
    """
    worker = state.workers[index]
    end_s, following = now_s + work, job.operations[operation].chained
    while following != NOTHING:
        operation = following
        end_s += job.timings[worker.timings_at + operation].work
        worker.unfinished -= 1
        following = job.operations[operation].chained
    schedule(state, worker, end_s, (index << WORKER_AT) | job.operations[operation].code)


@inlined
def changes(state: SimulationState, row: int, now_s: float) -> None:
    """Remember that a row's flows have changed; those of the opposite direction may slow down."""
    mark_changed(state, row)
    opposite = state.rows[row].opposite
    if opposite != UNSHARED:
        disturb(state, state.rows[opposite], now_s)
        mark_changed(state, opposite)


@inlined
def mark_changed(state: SimulationState, row: int) -> None:
    """Remember that the next end of a row's flows has to be found again."""
    count = state.changed[0]
    for index in range(1, count + 1):
        if state.changed[index] == row:
            return
    state.changed[0] = count + 1
    state.changed[count + 1] = row


@inlined
def complete(
    job: SimulationJob, state: SimulationState, index: int, now_s: float, finished: int
) -> bool:
    """Complete `State.finished` and start what can run then; what takes no time completes too.

    Returns:
        Whether that completes the worker's step.
    """
    worker = state.workers[index]
    done = 0
    while done < finished:
        operation = int(state.finished[done])
        this, following = job.operations[operation], job.operations[operation + 1]
        for edge in range(this.successors_at, following.successors_at):
            target = int(job.successors[edge])
            if is_ready(job, state, worker, target):
                start_ready(job, state, index, target, now_s)
        for edge in range(this.touched_at, following.touched_at):
            finished = dispatch(job, state, index, int(job.touched[edge]), now_s, finished)
        done += 1
    worker.unfinished -= finished
    return finished > 0 and worker.unfinished == 0


@inlined
def is_ready(
    job: SimulationJob, state: SimulationState, worker: WorkerFields, operation: int
) -> bool:
    """Count one predecessor as completed and tell whether it was the last."""
    predecessors = job.operations[operation].predecessors
    if predecessors == 1:
        return True
    waiting = int(state.waiting[worker.waiting_at + operation]) - 1
    state.waiting[worker.waiting_at + operation] = waiting if waiting else predecessors
    return waiting == 0


@inlined
def record(
    job: SimulationJob,
    state: SimulationState,
    worker: int,
    operation: int,
    start_s: float,
    end_s: float,
    size_bytes: float,
) -> None:
    """Keep a chunk that ran, if asked for."""
    if job.record:
        index = state.kept[0]
        state.kept[0] = index + 1
        state.recorded[index, 0] = worker
        state.recorded[index, 1] = state.workers[worker].completed
        code = job.operations[operation].code
        state.recorded[index, 2] = (code >> OPERATION_BITS) & OPERATION_MASK
        state.recorded_s[index, 0] = start_s
        state.recorded_s[index, 1] = end_s
        state.recorded_s[index, 2] = size_bytes
