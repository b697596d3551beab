"""RunMetadata: seeds, and mutations of the fields of its messages."""

from random import Random
from typing import Any

from google.protobuf.message import DecodeError, Message

from profilers.readers.run_metadata import RunMetadata


def _stats_of(metadata: Any, device: str) -> Any:
    """Return the statistics of a device, which a file lists once."""
    for dev_stat in metadata.step_stats.dev_stats:
        if dev_stat.device == device:
            return dev_stat
    return metadata.step_stats.dev_stats.add(device=device)


_PS, _WORKER = "/job:ps/replica:0/task:1/device:CPU:0", "/job:worker/replica:0/task:0/device:CPU:0"
_EDGES = (0, 1, -1, 7, 2**15, 2**31 - 1, -(2**31), 2**31, 2**53 + 1, 2**63 - 1, -(2**63))
_TEXTS = (
    "",
    "w/read",
    "RecvTensor",
    "_Recv",
    "_Send",
    "edge_1_w/read",
    "^w/read",
    "w/read:1",
    "w/read:x",
    "w/read:" + "9" * 5000,
    "/job:ps/task:99999999999999999999",
    "[1.0MB] " * 200 + "edge_",
    "x = " + "(" * 300,
    "= " * 2000,
    "a" * 5000,
    "\x00",
)


def _with_graphs() -> Any:
    metadata = RunMetadata()
    server, worker = metadata.partition_graphs.add(), metadata.partition_graphs.add()
    for graph, name, op, device, inputs, tensor, sender in (
        (server, "w/read", "Identity", _PS, [], None, None),
        (server, "w/read_S0", "_Send", _PS, ["w/read"], "edge_1_w/read", _PS),
        (worker, "w/read_S1", "_Recv", _WORKER, [], "edge_1_w/read", _PS),
        (worker, "product", "MatMul", _WORKER, ["w/read_S1", "^ready"], None, None),
        (worker, "ready", "NoOp", _WORKER, [], None, None),
    ):
        node = graph.node.add(name=name, op=op, device=device, input=inputs)
        if tensor:
            node.attr.add(key="tensor_name").value.s = tensor.encode()
            node.attr.add(key="send_device").value.s = str(sender).encode()
    edge = f"[4.0MB] [191.2Mb/s] edge_1_w/read from {_PS} to {_WORKER}"
    for device, name, start_us, label in (
        (_PS, "w/read", 10, ""),
        (_WORKER, "RecvTensor", 20, edge),
        (_WORKER, "product", 130, ""),
    ):
        entry = _stats_of(metadata, device).node_stats.add(
            node_name=name,
            all_start_micros=1_000_000 + start_us,
            all_end_rel_micros=5,
            timeline_label=label,
        )
        output = entry.output.add(slot=0)
        output.tensor_description.dtype = 1
        output.tensor_description.shape.dim.add(size=3)
    return metadata


def _with_labels() -> Any:
    metadata = RunMetadata()
    for device, name, start_us, label in (
        (_WORKER, "RecvTensor", 0, "[256B] [100Mb/s] edge_1_w from /job:ps to /job:worker"),
        (_WORKER, "x", 10, "x = Const()"),
        ("/device:GPU:0/stream:all", "product:MatMul", 15, "sgemm@@product:MatMul#id=1#"),
        (_WORKER, "sum", 60, "sum = Add(product:0, product:0)"),
    ):
        _stats_of(metadata, device).node_stats.add(
            node_name=name,
            all_start_micros=1_000_000 + start_us,
            all_end_rel_micros=7,
            timeline_label=label,
        )
    return metadata


SEEDS = (_with_graphs().SerializeToString(), _with_labels().SerializeToString())


def field(content: bytes, random: Random) -> bytes:
    """Change, repeat, delete or move values of some message; bytes that are none stay."""
    metadata = RunMetadata()
    try:
        metadata.ParseFromString(content)
    except DecodeError:
        return content
    for _ in range(random.choice((1, 1, 2, 5))):
        _change(random.choice(list(_messages(metadata))), random)
    return bytes(metadata.SerializeToString())


def _messages(message: Any) -> Any:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else (value,):
                yield from _messages(inner)


def _change(message: Message, random: Random) -> None:
    field = random.choice(message.DESCRIPTOR.fields)
    if field.is_repeated:
        values = getattr(message, field.name)
        if values and random.random() < 0.4:
            del values[random.randrange(len(values))]
        elif values:
            values.extend([random.choice(values)] * random.choice((1, 1, 3, 50)))
        elif field.message_type is None:
            values.append(random.choice(_TEXTS))
    elif field.message_type is not None or random.random() < 0.2:
        message.ClearField(field.name)
    elif field.type == field.TYPE_STRING:
        setattr(message, field.name, random.choice(_TEXTS))
    elif field.type == field.TYPE_BYTES:
        setattr(message, field.name, random.choice((b"\xff", b"edge_1_w/read", b"")))
    else:
        width = 31 if field.type == field.TYPE_INT32 else 63
        fitting = [edge for edge in _EDGES if -(2**width) <= edge < 2**width]
        setattr(message, field.name, random.choice(fitting))
