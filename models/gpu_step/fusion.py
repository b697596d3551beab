"""A step as torch.compile makes it: chains of operators that Inductor fuses are one kernel each.

The joint graph of forward, loss and backward is that of the traced calls (`dataflow`). Rules are
those of Inductor's default mode in PyTorch 2.13, simplified:

* **Who fuses.** What is computed element by element, look-ups, reductions and what is added to
  chosen rows. Matrix products, convolutions, attention, sorting, cumulative sums and what is
  unknown stay the calls that they were; nothing is fused into them (no templates of max-autotune).
* **With what.** A node joins the kernel of what it reads, where both have as many elements, or are
  of rows of one length (`Scheduler.can_fuse_vertical`). A reduction of rows and what is computed of
  its result and the row is one kernel. Reductions of columns begin a kernel, and are two where they
  would leave a GPU idle. What only reads the same data is not fused.
* **In place of written results.** What is computed element by element is computed in each kernel
  that reads it, where it has at most four inputs and nobody else needs it, of one kernel whatever
  it has (`realize_reads_threshold`).
* **Never** across the begin of backward, nor across calls that break the graph (`BREAKS`). What
  breaks it without an operator (printing, NumPy) is not looked at; `torch._dynamo.explain` tells.
* **Bytes** are those of inputs, each read once, and of results that another kernel, backward or the
  optimizer needs. What lies between is gone, as are views.
* **Saved for backward** is what AOTAutograd's partitioner would save, one value after the other
  where it cuts a graph: a result of element-wise operators is computed again in backward, unless
  it needs more than four values, those not saved yet have as many bytes, a product or pooling
  reads it in backward, or it is random. Bytes that nobody writes otherwise count twice.
* **Launches**: one a kernel; guards once a graph and direction. The optimizer is not compiled.

Source: Ansel et al., PyTorch 2 (ASPLOS 2024); torch/_inductor/scheduler.py, partitioners.py.
"""

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from models.gpu_step.dataflow import BREAKS, DataFlowGraph, Node, Touched, Value, graph_of
from models.gpu_step.memory import rounded
from networks.gpu_steps import GpuStep, Operator, Tensor

GUARDS = Operator("guards", (), (), view=True)
"""What the host checks before a graph is run."""
_MOST_READS = 4
_FUSED = ("pointwise", "window", "row", "columns", "scatter")
_NAMED = 4


def compiled(step: GpuStep) -> GpuStep:
    """Return a traced step as torch.compile would run it; `ValueError` where it tells no flow."""
    as_traced, flow = graph_of(step), step.flow
    assert flow is not None  # the graph is of it
    graph = with_recomputed(as_traced)
    last = {value.storage: number for number, value in enumerate(graph.values)}
    inputs = {value.storage for value in graph.values if value.maker is None}
    kept = {last[each] for each in {*flow.gradients, *inputs} if each in last}
    kernels = fused(graph, kept)
    numbers: dict[Operator, int] = {}
    order, segment = list[int](), -1
    for kernel in kernels:
        listed = list(kernel.operators(graph))
        if kernel.segment != segment and listed[0].name not in BREAKS:
            listed.insert(0, GUARDS)
        segment = kernel.segment
        order += [numbers.setdefault(operator, len(numbers)) for operator in listed]
    calls = [Kernel(node.segment, {at}) for at, node in enumerate(as_traced.nodes)]
    of_calls = [{kernel} for kernel in calls]
    for kernel in calls:
        kernel.touch(as_traced, of_calls, kept)
    saved = {
        name: _most_alive(as_traced, calls, kept, others)
        - _most_alive(graph, kernels, kept, others)
        for name, others in (
            ("peak_bytes", ()),
            ("without_gradients_bytes", flow.gradients),
            ("activation_bytes", flow.divided),
        )
    }
    return replace(
        step,
        operators=tuple(numbers),
        order=tuple(order),
        kept=None if step.kept is None else compiled(step.kept),
        flow=None,
        **{name: max(getattr(step, name) - less, 0) for name, less in saved.items()},
    )


def with_recomputed(graph: DataFlowGraph) -> DataFlowGraph:
    """Return a graph whose backward computes again what its forward need not save."""
    nodes, values, first = graph.nodes, graph.values, graph.first_backward

    def can_recompute(number: int) -> bool:
        maker = values[number].maker
        if maker is None:
            return False
        node = nodes[maker]
        return node.part.kind == "pointwise" and node.segment < first and not node.is_random

    def cost(number: int) -> int:
        value = values[number]
        made = value.maker is not None and nodes[value.maker].part.kind in _FUSED
        read = any(
            nodes[place].part.kind in ("alone", "window")
            for place in value.readers
            if nodes[place].segment < first
        )
        return value.tensor.bytes * (2 if made and not read else 1)

    def sources(number: int, saved: Collection[int]) -> set[int] | None:
        """Return what a value is computed of; None: of too much."""
        found, left = set[int](), [number]
        while left:
            maker = values[left.pop()].maker
            assert maker is not None
            for read, _ in nodes[maker].part.reads:
                if read in saved or not can_recompute(read):
                    found.add(read)
                else:
                    left.append(read)
            if len(found) > _MOST_READS:
                return None
        return found

    needed = dict[int, bool]()
    for number, value in enumerate(values):
        if value.maker is None or nodes[value.maker].segment >= first:
            continue
        kinds = {nodes[at].part.kind for at in value.readers if nodes[at].segment >= first}
        if kinds:
            needed[number] = can_recompute(number) and not kinds & {"alone", "window"}
    saved = {number for number, is_free in needed.items() if not is_free}
    again = set[int]()
    for number in (number for number, is_free in needed.items() if is_free):
        found = sources(number, saved)
        made = {each for each in found or () if values[each].maker is not None}
        if found is not None and sum(map(cost, made - saved)) < cost(number):
            again.add(number)
            saved |= made
        else:
            saved.add(number)
    return _rebuilt(graph, again, saved) if again else graph


def _rebuilt(graph: DataFlowGraph, again: Collection[int], saved: Collection[int]) -> DataFlowGraph:
    new = DataFlowGraph(
        [], [Value(value.tensor, value.storage) for value in graph.values], graph.first_backward
    )

    def copy(number: int, segment: int, copies: dict[int, int]) -> int:
        maker = graph.values[number].maker
        if number in copies:
            return copies[number]
        if maker is None or (number in saved and number not in again):
            return number
        node = graph.nodes[maker]
        reads = [(copy(read, segment, copies), tensor) for read, tensor in node.part.reads]
        for written, _ in node.part.writes:
            copies[written] = new.value(graph.values[written].tensor)
        writes = [(copies[written], tensor) for written, tensor in node.part.writes]
        part = node.part._replace(reads=reads, writes=writes)
        new.add(replace(node, part=part, segment=segment, parts=0))
        return copies[number]

    for node in graph.nodes:
        reads: Touched = node.part.reads
        if node.segment >= graph.first_backward and any(read in again for read, _ in reads):
            copies = dict[int, int]()  # each reader has its own
            reads = [
                (copy(read, node.segment, copies) if read in again else read, tensor)
                for read, tensor in reads
            ]
        new.add(replace(node, part=node.part._replace(reads=reads)))
    return new


@dataclass(eq=False)
class Kernel:
    """Nodes that are computed together; `level`: it depends on none of this or a higher one."""

    segment: int
    nodes: set[int]
    level: int = 0
    numel: int = 0
    columns: int = 0
    is_open: bool = False
    is_pointwise: bool = False
    reads: dict[int, Tensor] = field(default_factory=dict)
    writes: dict[int, Tensor] = field(default_factory=dict)

    def fits(self, node: Node) -> bool:
        """Whether a node has the same iteration space, or one element for each row of it."""
        part = node.part
        if not self.is_open or self.segment != node.segment:
            return False
        if part.kind == "row":
            return part.numel == self.numel and self.columns in (0, part.columns)
        return part.numel == self.numel or part.numel * self.columns == self.numel

    def touch(
        self, graph: DataFlowGraph, holders: Sequence[set["Kernel"]], kept: Collection[int]
    ) -> None:
        """Find what is read and written; `holders`: kernels of each node."""
        reads, writes = dict[int, Tensor](), dict[int, Tensor]()
        for place in sorted(self.nodes):
            for number, tensor in graph.nodes[place].part.reads:
                known = reads.get(number)
                if graph.values[number].maker not in self.nodes and (
                    known is None or known.bytes < tensor.bytes
                ):
                    reads[number] = tensor
            made = graph.nodes[place].part.writes
            is_read = any(graph.values[number].readers for number, _ in made)
            for number, tensor in made:
                readers = graph.values[number].readers
                elsewhere = any(
                    place not in kernel.nodes for reader in readers for kernel in holders[reader]
                )
                if elsewhere or number in kept or not is_read:
                    writes[number] = tensor
        self.reads, self.writes = reads, writes

    def operators(self, graph: DataFlowGraph) -> Iterator[Operator]:
        """Yield what is launched: the call that it is, or a kernel; another where it is split."""
        nodes = [graph.nodes[place] for place in sorted(self.nodes)]
        if len({node.call for node in nodes}) == 1 and len(nodes) == nodes[0].parts:
            yield nodes[0].operator
        else:
            named = list(dict.fromkeys(node.name for node in nodes))
            name = "_".join(["fused", *named[:_NAMED]])
            yield Operator(name, tuple(self.reads.values()), tuple(self.writes.values()))
        for node in nodes:
            for _, result in node.part.writes[: node.part.finals]:
                yield Operator("fused_reduction", (result,), (result,))


def fused(graph: DataFlowGraph, kept: Collection[int]) -> list[Kernel]:
    """Return the kernels of a graph, in an order in which they can run.

    Args:
        graph: of calls.
        kept: values that are needed when all has run.
    """
    kernel_of: list[Kernel] = []
    for place, node in enumerate(graph.nodes):
        makers = dict.fromkeys(
            kernel_of[maker]
            for number, _ in node.part.reads
            if (maker := graph.values[number].maker) is not None
        )
        level = max((kernel.level for kernel in makers), default=-1)
        latest = [kernel for kernel in makers if kernel.level == level]
        kind = node.part.kind
        fitting = [kernel for kernel in latest if kernel.fits(node)]
        widest = max((kernel.numel for kernel in fitting), default=0)
        same = [kernel for kernel in fitting if kernel.numel == widest]
        others = [kernel for kernel in latest if kernel not in same]
        joins = kind in ("pointwise", "row", "scatter") and bool(same) and _alike(same)
        if joins and all(_can_repeat(graph, kernel, node) for kernel in others):
            kernel, *merged = sorted(same, key=lambda each: min(each.nodes))
            for other in merged:
                kernel.nodes |= other.nodes
                kernel.columns = kernel.columns or other.columns
                kernel.is_pointwise &= other.is_pointwise
                for moved in other.nodes:
                    if kernel_of[moved] is other:
                        kernel_of[moved] = kernel
            for other in others:
                kernel.nodes |= other.nodes  # computed here, too
        else:
            kernel = Kernel(node.segment, set(), level + 1, node.part.numel)
            kernel.is_open = kind not in ("alone", "scatter")
            kernel.is_pointwise = True
        kernel.nodes.add(place)
        kernel.columns = kernel.columns or node.part.columns
        kernel.is_open &= kind != "scatter"
        kernel.is_pointwise &= kind == "pointwise"
        kernel_of.append(kernel)
    holders: list[set[Kernel]] = [set() for _ in kernel_of]
    made = list(dict.fromkeys(kernel_of))  # in their order, so that equal steps are compiled alike
    for kernel in made:
        for place in kernel.nodes:
            holders[place].add(kernel)
    for kernel in sorted(made, key=lambda each: (-each.level, -min(each.nodes))):
        _inline(graph, kernel, holders, kept)
    kernels = [kernel for kernel in made if kernel in holders[min(kernel.nodes)]]
    for kernel in kernels:
        kernel.touch(graph, holders, kept)
    return list(_in_order(graph, kernels, holders))


def _can_repeat(graph: DataFlowGraph, kernel: Kernel, reader: Node) -> bool:
    """Tell whether what a kernel computes may be computed in another one of its level, too."""
    is_random = any(graph.nodes[place].is_random for place in kernel.nodes)
    return kernel.is_pointwise and kernel.segment == reader.segment and not is_random


def _alike(kernels: Sequence[Kernel]) -> bool:
    """Tell whether kernels of as many elements have rows of one length."""
    return len({kernel.columns for kernel in kernels if kernel.columns}) <= 1


def _inline(
    graph: DataFlowGraph, kernel: Kernel, holders: list[set[Kernel]], kept: Collection[int]
) -> None:
    """Have what is computed element by element computed by those that read it, if they may."""
    made = {number for at in kernel.nodes for number, _ in graph.nodes[at].part.writes}
    readers = {
        reader
        for number in made
        for place in graph.values[number].readers
        for reader in holders[place]
    } - {kernel}
    if not kernel.is_pointwise or not readers or made & set(kept):
        return
    several = len(readers) > 1
    if several and any(graph.nodes[place].is_random for place in kernel.nodes):
        return
    kernel.touch(graph, holders, kept)
    if several and len(kernel.reads) > _MOST_READS:
        return
    storages = {graph.values[number].storage for number in made}
    for reader in readers:
        kinds = {graph.nodes[place].part.kind for place in reader.nodes}
        added = [graph.nodes[place].part for place in reader.nodes]
        if any(
            part.kind == "scatter" and graph.values[part.writes[0][0]].storage in storages
            for part in added
        ):
            return  # rows are added to what is there
        if reader.segment != kernel.segment or not kinds <= {
            "pointwise",
            "row",
            "columns",
            "scatter",
        }:
            return
    for reader in readers:
        reader.nodes |= kernel.nodes
    for place in kernel.nodes:
        holders[place] = (holders[place] | readers) - {kernel}


def _in_order(
    graph: DataFlowGraph, kernels: Collection[Kernel], holders: Sequence[set[Kernel]]
) -> Iterator[Kernel]:
    """Yield kernels when all is there that they read, segments in turn."""
    readers: dict[Kernel, list[Kernel]] = defaultdict(list)
    missing = dict.fromkeys(kernels, 0)
    for kernel in kernels:
        makers = {graph.values[number].maker for number in kernel.reads}
        for maker in {one for at in makers if at is not None for one in holders[at]} - {kernel}:
            readers[maker].append(kernel)
            missing[kernel] += 1
    places = {
        kernel: (kernel.segment, max(kernel.nodes), number) for number, kernel in enumerate(kernels)
    }
    ready = [(*places[kernel], kernel) for kernel in kernels if not missing[kernel]]
    heapq.heapify(ready)
    while ready:
        kernel = heapq.heappop(ready)[-1]
        yield kernel
        for reader in readers[kernel]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, (*places[reader], reader))


def _most_alive(
    graph: DataFlowGraph, kernels: Sequence[Kernel], kept: Collection[int], others: Collection[int]
) -> int:
    """Return the most bytes of storages that kernels make, alive at once, but for some."""
    size_bytes: dict[int, int] = defaultdict(int)
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    not_counted = {*others, *(value.storage for value in graph.values if value.maker is None)}
    for at, kernel in enumerate(kernels):
        for number in (*kernel.reads, *kernel.writes):
            value = graph.values[number]
            if value.storage not in not_counted:
                first.setdefault(value.storage, at)
                last[value.storage] = len(kernels) if number in kept else at
                size = rounded(value.tensor.bytes)
                size_bytes[value.storage] = max(size_bytes[value.storage], size)
    changes = [0] * (len(kernels) + 2)
    for storage, at in first.items():
        changes[at] += size_bytes[storage]
        changes[last[storage] + 1] -= size_bytes[storage]
    alive = most = 0
    for change in changes:
        alive += change
        most = max(most, alive)
    return most
