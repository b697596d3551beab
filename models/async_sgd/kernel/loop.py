"""Algorithm 3.1 of Li et al. (ICPE 2020), mended as lab/async_sgd.md says, on arrays.

tests/models/async_sgd/oracle is the same in plain Python, and what this has to agree with.
"""

from models.async_sgd.kernel.dispatch import (
    changes,
    complete,
    dispatch,
    enqueue,
    record,
    start_ready,
)
from models.async_sgd.kernel.fabric import finish_flow, finish_sending, next_end_s, next_sent_s
from models.async_sgd.kernel.heaps import (
    bits_of,
    comes_first,
    compiled,
    inlined,
    pop,
    set_next,
    time_of,
)
from models.async_sgd.kernel.state import (
    NEXT_STEP,
    NUMBERS_MASK,
    OPERATION_MASK,
    RELEASE,
    STATION_AT,
    STATION_MASK,
    STATION_OFFSET,
    UNSHARED,
    WORKER_AT,
    SimulationJob,
    SimulationState,
)


@compiled
def generate_trace(job: SimulationJob, state: SimulationState) -> None:
    """Run the steps of all workers; `state` holds what happened."""
    for worker in range(len(state.workers)):
        start_step(job, state, worker, 0.0)
        schedule_worker(state, worker)
    while True:
        first = state.tournament[1]
        now_s, code = time_of(first.time_bits), first.code
        if now_s == float("inf"):
            return
        worker, operation = code >> WORKER_AT, code & OPERATION_MASK
        station = ((code >> STATION_AT) & STATION_MASK) - STATION_OFFSET
        if station == NEXT_STEP:
            start_step(job, state, worker, now_s)
        else:
            finished = end_chunk(job, state, worker, station, now_s, operation)
            if complete(job, state, worker, now_s, finished):
                end_step(job, state, worker, now_s)
        schedule_worker(state, worker)
        for index in range(1, state.changed[0] + 1):
            schedule_row(job, state, state.changed[index])
        state.changed[0] = 0


@inlined
def start_step(job: SimulationJob, state: SimulationState, index: int, now_s: float) -> None:
    """Let a worker begin the next of its sampled steps."""
    worker = state.workers[index]
    state.starts_s[index, worker.completed] = now_s
    worker.profile = int(job.sampled[index, worker.completed])
    worker.timings_at = worker.profiled_at + worker.profile * worker.operations
    worker.unfinished = worker.operations
    worker.arrivals = 0
    worker.released = 0
    schedule_release(job, state, index)


@inlined
def code_at(worker: int, station: int) -> int:
    """Return the part of an event's code that says where it is."""
    return (worker << WORKER_AT) | ((station + STATION_OFFSET) << STATION_AT)


@inlined
def schedule_release(job: SimulationJob, state: SimulationState, index: int) -> None:
    """Let the next operation that waits for no other one wait for its release."""
    worker = state.workers[index]
    if worker.released == worker.roots:
        worker.awaited_s = float("inf")
        return
    starts_s = state.starts_s[index, worker.completed]
    root = worker.roots_at + worker.profile * worker.roots + worker.released
    operation = int(job.roots[root])
    worker.awaited_s = starts_s + job.release_s[root]
    worker.awaited = code_at(index, RELEASE) | (job.operations[operation].code & NUMBERS_MASK)
    worker.released += 1


@inlined
def end_chunk(
    job: SimulationJob,
    state: SimulationState,
    index: int,
    station: int,
    now_s: float,
    operation: int,
) -> int:
    """End a chunk, or the wait for a release, and queue what is left of its operation.

    Returns:
        How many operations that completes; they are in `State.finished`.
    """
    worker = state.workers[index]
    if station == RELEASE:
        while True:
            schedule_release(job, state, index)
            start_ready(job, state, index, operation, now_s)
            at = int(job.operations[operation].station)
            finished = dispatch(job, state, index, at, now_s, 0)
            lane = state.lanes[worker.lanes_at + at]
            is_delay = not finished and lane.row == UNSHARED and not lane.is_limited
            # Nothing comes between a delay and a release at the same time.
            if worker.awaited_s != now_s or not is_delay:
                return finished
            operation = worker.awaited & OPERATION_MASK
    lane = state.lanes[worker.lanes_at + station]
    if lane.row == UNSHARED:
        pop(state.heap, worker.timed_at, worker.timed)
        worker.timed -= 1
    else:
        row = state.rows[lane.row]
        if row.joint:
            finish_sending(state, row, now_s)
        else:
            finish_flow(state, row, now_s, lane.weight)
        if lane.row != index:
            changes(state, lane.row, now_s)
    lane.running -= 1
    lane.ended_s = now_s
    start_s = state.chunk_start_s[worker.waiting_at + operation] if job.record else 0.0
    record(job, state, index, operation, start_s, now_s, lane.sending)
    if lane.left > 0:
        enqueue(state, worker, lane, operation, worker.rank_of_served, 1)
        return dispatch(job, state, index, station, now_s, 0)
    state.finished[0] = operation
    return 1


@inlined
def end_step(job: SimulationJob, state: SimulationState, index: int, now_s: float) -> None:
    """Note that a worker has completed a step; the client may pause before the next."""
    worker = state.workers[index]
    step = worker.completed
    state.ends_s[index, step] = now_s
    worker.completed = step + 1
    if worker.completed < worker.steps:
        worker.awaited_s = now_s + job.gap_s[index, step]
        worker.awaited = code_at(index, NEXT_STEP)


@inlined
def schedule_worker(state: SimulationState, index: int) -> None:
    """Find what happens to a worker next, beside what its links do."""
    worker, cores = state.workers[index], state.rows[index]
    time_bits, code = bits_of(next_end_s(state, cores)), state.heap[cores.flows_at].code
    if worker.timed:
        timed = state.heap[worker.timed_at]
        if comes_first(timed.time_bits, timed.code, time_bits, code):
            time_bits, code = timed.time_bits, timed.code
    awaited_bits = bits_of(worker.awaited_s)
    if comes_first(awaited_bits, worker.awaited, time_bits, code):
        time_bits, code = awaited_bits, worker.awaited
    set_next(state, index, time_bits, code)


@inlined
def schedule_row(job: SimulationJob, state: SimulationState, index: int) -> None:
    """Find which flow of a shared row ends next."""
    row = state.rows[index]
    if row.joint:
        end_s = next_sent_s(job, state, row)
        set_next(state, index, bits_of(end_s), state.connections[row.first].code)
    else:
        end_s = next_end_s(state, row)
        set_next(state, index, bits_of(end_s), state.heap[row.flows_at].code)
