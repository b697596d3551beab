"""The part of TensorFlow's RunMetadata that Stepcast reads, as protobuf messages of its own.

Protobuf skips fields it was not told of, so naming few of them is what makes parsing fast, and no
import of TensorFlow (seconds, and gigabytes to install) is needed to read a trace. Numbers and
types are those of TensorFlow's tensorflow/core/{protobuf/config,framework/step_stats,…}.proto.
"""

from types import MappingProxyType
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_PACKAGE = "stepcast"
_SCALARS = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
}
MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "RunMetadata": {"step_stats": (1, "StepStats"), "partition_graphs": (3, "GraphDef*")},
    "StepStats": {"dev_stats": (1, "DeviceStepStats*")},
    "DeviceStepStats": {"device": (1, "string"), "node_stats": (2, "NodeExecStats*")},
    "NodeExecStats": {
        "node_name": (1, "string"),
        "all_start_micros": (2, "int64"),
        "all_end_rel_micros": (5, "int64"),
        "output": (7, "NodeOutput*"),
        "timeline_label": (8, "string"),
    },
    "NodeOutput": {"slot": (1, "int32"), "tensor_description": (3, "TensorDescription")},
    "TensorDescription": {"dtype": (1, "int32"), "shape": (2, "TensorShapeProto")},
    "TensorShapeProto": {"dim": (2, "Dim*")},
    "Dim": {"size": (1, "int64")},
    "GraphDef": {"node": (1, "NodeDef*")},
    "NodeDef": {
        "name": (1, "string"),
        "op": (2, "string"),
        "input": (3, "string*"),
        "device": (4, "string"),
        "attr": (5, "AttrEntry*"),
    },
    "AttrEntry": {"key": (1, "string"), "value": (2, "AttrValue")},
    "AttrValue": {"s": (2, "bytes")},
}
"""Fields of each message: number and type; `*` is repeated. An enumeration travels as int32."""

_SIZES: dict[int, tuple[int, ...]] = {
    1: (4, 6, 10, 11, 12, *range(24, 34)),
    2: (5, 14, 15, 16, 17, 19),
    4: (1, 3, 13, 22),
    8: (2, 8, 9, 23),
    16: (18,),
}
ELEMENT_BYTES = MappingProxyType({kind: size for size, kinds in _SIZES.items() for kind in kinds})
"""Bytes of an element by TensorFlow's DataType; types without a fixed size are not listed."""


def _class() -> Any:
    file = FileDescriptorProto(name="run_metadata.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            base = kind.removesuffix("*")
            repeated = base != kind
            message.field.add(
                name=field,
                number=number,
                label=(
                    FieldDescriptorProto.LABEL_REPEATED
                    if repeated
                    else FieldDescriptorProto.LABEL_OPTIONAL
                ),
                type=_SCALARS.get(base, FieldDescriptorProto.TYPE_MESSAGE),
                type_name=None if base in _SCALARS else f".{_PACKAGE}.{base}",
            )
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.RunMetadata"))


RunMetadata = _class()
"""Protobuf class of the messages above."""
