"""Links of servers and workers shared jointly, by weight: O(connections) when one starts or ends.

The arithmetic is that of the oracle in tests/models/async_sgd, operation by operation.
"""

from models.async_sgd.kernel.heaps import comes_first, inlined, pop, push, time_of
from models.async_sgd.kernel.state import (
    UNSHARED,
    LaneFields,
    RowFields,
    SimulationJob,
    SimulationState,
)


@inlined
def start_sending(
    job: SimulationJob,
    state: SimulationState,
    row: RowFields,
    now_s: float,
    code: int,
    worker: int,
    lane: LaneFields,
    size_bytes: float,
    drawn: float,
) -> None:
    """Let a worker and a server begin to send; a connection that goes on at once keeps its place.

    Such a connection ended in the same event. Others line up behind those that have been at it for
    longer without a pause.
    """
    advance(state, row, now_s)
    under_way, place = 0, row.flows_at + row.flows
    for index in range(row.flows_at, row.flows_at + row.flows):
        connection = state.connections[index]
        if connection.server == lane.server:
            if not connection.ended:
                under_way += 1
            elif connection.worker == worker:
                place = index
    note_pause(job, lane, now_s, under_way)
    drawn *= lane.standing
    if place < row.flows_at + row.flows:
        row.ended -= 1
        if drawn != state.connections[place].drawn:
            row.joined = 1
    else:
        while place > row.flows_at and is_newer(state, place - 1, lane.since_s, worker):
            move(state, place - 1, place)
            place -= 1
        row.flows += 1
        row.joined = 1
        connection = state.connections[place]
        connection.worker, connection.server, connection.rate_Bps = worker, lane.server, 0.0
        connection.since_s = lane.since_s
    connection = state.connections[place]
    connection.code, connection.left_bytes = code, size_bytes
    connection.drawn, connection.ended = drawn, 0


@inlined
def is_newer(state: SimulationState, index: int, since_s: float, worker: int) -> bool:
    """Return whether a connection has been at it for less long than a worker's."""
    connection = state.connections[index]
    return bool(
        connection.since_s > since_s
        or (connection.since_s == since_s and connection.worker > worker)
    )


@inlined
def note_pause(job: SimulationJob, lane: LaneFields, now_s: float, found: int) -> None:
    """Note when a worker begins after a pause, and how many transfers it finds."""
    if now_s - lane.ended_s >= job.newcomer_pause_s:
        lane.standing = job.newcomer[found]
        lane.since_s = now_s


@inlined
def finish_sending(state: SimulationState, row: RowFields, now_s: float) -> None:
    """End the transfer that ends first, at the time it does."""
    advance(state, row, now_s)
    state.connections[row.first].ended = 1
    row.ended += 1


@inlined
def advance(state: SimulationState, row: RowFields, now_s: float) -> None:
    """Send until `now_s`."""
    for index in range(row.flows_at, row.flows_at + row.flows):
        connection = state.connections[index]
        connection.left_bytes = max(
            0.0, connection.left_bytes - (now_s - row.as_of_s) * connection.rate_Bps
        )
    row.as_of_s = now_s


@inlined
def next_sent_s(job: SimulationJob, state: SimulationState, row: RowFields) -> float:
    """Return when `row.first` ends if nothing changes, infinity if nothing is sent."""
    if row.joined or row.ended:
        remove_ended(state, row)
        if job.two_servers:
            two_servers(job, state, row)
        else:
            weigh(job, state, row)
            max_min(job, state, row)
        row.joined = 0
    time_s, code = float("inf"), 0
    for index in range(row.flows_at, row.flows_at + row.flows):
        connection = state.connections[index]
        end_s = row.as_of_s + connection.left_bytes / connection.rate_Bps
        if comes_first(end_s, connection.code, time_s, code):
            time_s, code = end_s, connection.code
            row.first = index
    return time_s


@inlined
def remove_ended(state: SimulationState, row: RowFields) -> None:
    """Close up the connections, in their order."""
    kept = row.flows_at
    for index in range(row.flows_at, row.flows_at + row.flows):
        connection = state.connections[index]
        if not connection.ended:
            if kept < index:
                move(state, index, kept)
            kept += 1
    row.flows = kept - row.flows_at
    row.ended = 0


@inlined
def move(state: SimulationState, index: int, to: int) -> None:
    """Copy a connection to another place."""
    source, target = state.connections[index], state.connections[to]
    target.code, target.worker, target.server = source.code, source.worker, source.server
    target.left_bytes, target.rate_Bps = source.left_bytes, source.rate_Bps
    target.drawn, target.since_s, target.ended = source.drawn, source.since_s, source.ended


@inlined
def disturb(state: SimulationState, row: RowFields, now_s: float) -> None:
    """Let the rates of a row be set again: something started or ended in the other direction."""
    advance(state, row, now_s)
    row.joined = 1


@inlined
def weigh(job: SimulationJob, state: SimulationState, row: RowFields) -> None:
    """Give each connection its weight, and each link that is used its speed."""
    end = row.flows_at + row.flows
    for index in range(row.flows_at, end):
        state.of_server[state.connections[index].server] = 0
    for index in range(row.flows_at, end):
        state.of_server[state.connections[index].server] += 1
    speeds_Bps, shares = job.speeds_Bps[row.is_uplink], job.shares[row.is_uplink]
    for index in range(row.flows_at, end):
        connection = state.connections[index]
        shares_at = 2 * (state.of_server[connection.server] - 1)
        connection.weight = shares[shares_at + 1] * connection.drawn
        own = job.servers + connection.worker
        state.left_Bps[connection.server] = speeds_Bps[connection.server] * shares[shares_at]
        state.left_Bps[own] = speeds_Bps[own]
    if row.opposite != UNSHARED:
        oppose(job, state, row)


@inlined
def oppose(job: SimulationJob, state: SimulationState, row: RowFields) -> None:
    """Leave to each worker's link what those let through that go the other way at its servers."""
    end = row.flows_at + row.flows
    for index in range(row.flows_at, end):
        state.of_server[state.connections[index].server] = 0
    other = state.rows[row.opposite]
    for index in range(other.flows_at, other.flows_at + other.flows):
        state.of_server[state.connections[index].server] += 1 - state.connections[index].ended
    for index in range(row.flows_at, end):
        connection = state.connections[index]
        own = job.servers + connection.worker
        through = job.opposed[row.is_uplink, state.of_server[connection.server]]
        most_Bps = job.speeds_Bps[row.is_uplink, own] * through
        state.left_Bps[own] = min(state.left_Bps[own], most_Bps)


@inlined
def max_min(job: SimulationJob, state: SimulationState, row: RowFields) -> None:
    """Set weighted max-min fair rates by progressive filling: O(connections) per full link."""
    end = row.flows_at + row.flows
    for index in range(row.flows_at, end):
        state.connections[index].rising = 1
    rising = row.flows
    while rising:
        level_Bps, full = lowest_level(job, state, row)
        for index in range(row.flows_at, end):
            connection = state.connections[index]
            own = job.servers + connection.worker
            if connection.rising and (connection.server == full or own == full):
                connection.rate_Bps = connection.weight * level_Bps
                state.left_Bps[connection.server] -= connection.rate_Bps
                state.left_Bps[own] -= connection.rate_Bps
                connection.rising = 0
                rising -= 1


@inlined
def lowest_level(job: SimulationJob, state: SimulationState, row: RowFields) -> tuple[float, int]:
    """Return the rate per weight at which the next link is full, and that link."""
    end = row.flows_at + row.flows
    for index in range(row.flows_at, end):
        connection = state.connections[index]
        state.rising[connection.server] = 0.0
        state.rising[job.servers + connection.worker] = 0.0
    for index in range(row.flows_at, end):
        connection = state.connections[index]
        if connection.rising:
            state.rising[connection.server] += connection.weight
            state.rising[job.servers + connection.worker] += connection.weight
    level_Bps, full = float("inf"), 0
    for index in range(row.flows_at, end):
        connection = state.connections[index]
        if connection.rising:
            for link in (connection.server, job.servers + connection.worker):
                other_Bps = state.left_Bps[link] / state.rising[link]
                if comes_first(other_Bps, link, level_Bps, full):
                    level_Bps, full = other_Bps, link
    return level_Bps, full


@inlined
def two_servers(job: SimulationJob, state: SimulationState, row: RowFields) -> None:
    """Set rates by the paper's rule for two servers, by weight."""
    end = row.flows_at + row.flows
    for server in range(2):
        state.of_server[server] = 0
        state.rising[server] = 0.0
    for index in range(row.flows_at, end):
        connection = state.connections[index]
        state.of_server[connection.server] += 1
        state.rising[connection.server] += connection.drawn
    speed_Bps = job.speeds_Bps[row.is_uplink, 0]
    for index in range(row.flows_at, end):
        connection = state.connections[index]
        total, n_other = state.rising[connection.server], state.of_server[1 - connection.server]
        other_weight = 0.0
        if state.of_server[connection.server] == 1 and n_other:
            other_weight = weight_of(state, row, connection.worker, 1 - connection.server)
        if other_weight == 0.0:
            connection.rate_Bps = speed_Bps * (connection.drawn / total)
        elif n_other > 1:
            connection.rate_Bps = speed_Bps * (
                1 - other_weight / state.rising[1 - connection.server]
            )
        else:
            connection.rate_Bps = speed_Bps * (
                connection.drawn / (state.rising[0] + state.rising[1])
            )
    for index in range(row.flows_at, end):
        state.left_Bps[job.servers + state.connections[index].worker] = 0.0
    for index in range(row.flows_at, end):
        connection = state.connections[index]
        state.left_Bps[job.servers + connection.worker] += connection.rate_Bps
    for index in range(row.flows_at, end):
        connection = state.connections[index]
        connection.rate_Bps *= min(1.0, speed_Bps / state.left_Bps[job.servers + connection.worker])


@inlined
def weight_of(state: SimulationState, row: RowFields, worker: int, server: int) -> float:
    """Return the weight of a worker's connection to a server, 0 if it has none."""
    for index in range(row.flows_at, row.flows_at + row.flows):
        connection = state.connections[index]
        if connection.worker == worker and connection.server == server:
            return float(connection.drawn)
    return 0.0


# Sharing by weight in virtual time: the work that a flow of weight 1 had so far.
#
# The arithmetic is that of `models.async_sgd.link_sharing`, operation by operation.


@inlined
def start_flow(
    state: SimulationState, row: RowFields, now_s: float, code: int, work: float, weight: float
) -> None:
    """Let an operation begin a flow: O(log flows)."""
    if row.flows:
        row.virtual += (now_s - row.as_of_s) * row.speed
    row.as_of_s = now_s
    end = row.virtual + work / weight
    push(state.heap, row.flows_at, row.flows, end, code)
    row.flows += 1
    row.weights += weight


@inlined
def finish_flow(state: SimulationState, row: RowFields, now_s: float, weight: float) -> None:
    """Remove the flow that ends first, at the time it does."""
    end = time_of(state.heap[row.flows_at].time_bits)
    pop(state.heap, row.flows_at, row.flows)
    row.flows -= 1
    row.virtual = end if row.flows else 0.0
    row.weights = row.weights - weight if row.flows else 0.0
    row.as_of_s = now_s


@inlined
def next_end_s(state: SimulationState, row: RowFields) -> float:
    """Return when the first flow ends if nothing changes, infinity if there is none.

    Every event ends with this for the rows it changed, so that is early enough to set their speed.
    """
    if not row.flows:
        return float("inf")
    row.speed = min(row.capacity / row.weights, row.cap)
    left = max(0.0, time_of(state.heap[row.flows_at].time_bits) - row.virtual)
    return row.as_of_s + float(left / row.speed)
