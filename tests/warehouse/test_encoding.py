"""Raw tables come back as they were written, and smaller."""

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.landing import SCHEMAS, compact, smallest


def test_a_trace_comes_back_and_is_smaller(tmp_path: Path) -> None:
    chance = random.Random(1)
    rows = [
        ("one run", step, operation, 1_000_000 * step + 97 * operation + chance.randrange(50), 7)
        for step in range(40)
        for operation in range(500)
    ]
    schema = SCHEMAS["timing"]
    columns = dict(zip(schema.names, zip(*rows, strict=True), strict=True))
    table = pa.table(columns, schema=schema)
    sizes = []
    for name, options in (("plain", {"compression": "zstd"}), ("compact", compact(schema))):
        file = tmp_path / name
        with pq.ParquetWriter(file, schema, **options) as writer:
            writer.write_table(table)
        assert pq.read_table(file).equals(table)
        sizes.append(file.stat().st_size)
    assert sizes[1] < sizes[0]


def test_the_smallest_is_no_larger_and_comes_back(tmp_path: Path) -> None:
    chance = random.Random(2)
    schema = SCHEMAS["operation"]
    rows = [
        {
            "run_id": "one run",
            "operation": number,
            "name": f"block{number // 7}/Conv_{number}",
            "type": chance.choice(["Conv2D", "MatMul", "Relu"]),
            "resource": "worker",
            "input_bytes": chance.choice([None, 4096 * number, 150_528]),
        }
        for number in range(9000)
    ]
    table = pa.Table.from_pylist(rows, schema)
    sizes = []
    for name, options in (("compact", compact(schema)), ("smallest", smallest(table))):
        file = tmp_path / f"{name}.parquet"
        with pq.ParquetWriter(file, schema, **options) as writer:
            writer.write_table(table)
        # As the loader reads a file: texts as words of a dictionary, not all encodings know how.
        assert pq.read_table(file, read_dictionary=["name"]).cast(schema).equals(table)
        sizes.append(file.stat().st_size)
    assert sizes[1] < sizes[0]


def test_what_repeats_far_away_is_found(tmp_path: Path) -> None:
    """Pages of 20,000 rows, which pyarrow makes by itself, would be compressed one by one."""
    chance = random.Random(3)
    once = [chance.randrange(1 << 30) for _ in range(30_000)]
    schema = pa.schema([pa.field("start_us", pa.int32(), nullable=False)])
    sizes = []
    for values in (once, once + once):
        table = pa.table({"start_us": values}, schema=schema)
        file = tmp_path / "rows.parquet"
        with pq.ParquetWriter(file, schema, **smallest(table)) as writer:
            writer.write_table(table)
        assert pq.read_table(file).equals(table)
        sizes.append(file.stat().st_size)
    assert sizes[1] < 1.2 * sizes[0]
