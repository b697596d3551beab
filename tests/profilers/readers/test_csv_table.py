"""CSV files with mappings: conversions, runs, what is completed, what is refused."""

import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from profilers.readers.contract import ReaderOptions
from profilers.readers.csv_mapping import FOLDER, load
from tests.profilers.readers.imports import imported, only
from warehouse import limits
from warehouse.records import BadInput, content_hash
from warehouse.tables import SCHEMAS

EXTERNAL = """\
table: external
source: somebody
missing: [n/a]
columns:
  subject:
    subject:
      {dnn: model, workers: {column: n, type: integer}, xla: {column: xla, type: flag}}
  unit: {constant: s}
rows:
  - {metric: {constant: step_time_s}, value: {column: ms, factor: 0.001}}
"""


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    return tmp_path / "file.csv"


@pytest.fixture
def mapping(tmp_path: Path) -> ReaderOptions:
    file = tmp_path / "mine.yaml"
    file.write_text(EXTERNAL)
    return ReaderOptions(mapping=file)


def edited(options: ReaderOptions, old: str, new: str) -> ReaderOptions:
    assert options.mapping is not None
    assert old in EXTERNAL
    options.mapping.write_text(EXTERNAL.replace(old, new))
    return options


@pytest.mark.parametrize("pack", [zlib.compress, lambda text: b"\x28\xb5\x2f\xfd" + text])
def test_other_packers_are_refused(
    csv: Path, mapping: ReaderOptions, pack: Callable[[bytes], bytes]
) -> None:
    csv.write_bytes(pack(b"model,n,xla,ms\nvgg,2,0,1\n"))
    with pytest.raises(BadInput, match="packed, but not with gzip"):
        imported("csv", csv, mapping)


def test_more_than_can_be_kept_is_refused(
    csv: Path, mapping: ReaderOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "model,n,xla,ms\n" + "vgg,2,0,1\n" * 3
    csv.write_text(text)
    monkeypatch.setattr(limits, "EVENTS", 2)
    with pytest.raises(BadInput, match="3 rows with 18 bytes of text; at most 2"):
        imported("csv", csv, mapping)
    monkeypatch.setattr(limits, "EVENTS", 3)
    monkeypatch.setattr(limits, "KEPT_CHARACTERS", 17)
    with pytest.raises(BadInput, match="at most 3 and 17 are kept"):
        imported("csv", csv, mapping)
    monkeypatch.setattr(limits, "UNPACKED_BYTES", len(text) - 1)
    csv.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(BadInput, match="longer than"):
        imported("csv", csv, mapping)


def test_external_rows(csv: Path, mapping: ReaderOptions) -> None:
    csv.write_text("model,n,xla,ms,other\nvgg,2.0,True,1.1,\nvgg,2,1,1.3,x\nalex,1,,n/a,y\n")
    rows = only("csv", csv, mapping).tables["external"]
    assert [json.loads(text) for text in rows["subject"]] == [
        {"dnn": "vgg", "workers": 2, "xla": True},
        {"dnn": "vgg", "workers": 2, "xla": True},
        {"dnn": "alex", "workers": 1, "xla": None},
    ]
    assert rows["value"].to_list() == [0.0011, 0.0013, None]
    assert rows["repeat"].to_list() == [1, 2, 1]
    assert rows["row_number"].to_list() == [1, 2, 3]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9007199254740993", 2**53 + 1),
        ("-9007199254740993.0", -(2**53) - 1),
        ("9223372036854775807", 2**63 - 1),
        ("+12", 12),
        ("8.", 8),
        ("1e3", 1000),
    ],
)
def test_integers_keep_their_value(
    csv: Path, mapping: ReaderOptions, text: str, value: int
) -> None:
    csv.write_text(f"model,n,xla,ms\nvgg,{text},0,1\n")
    subject = only("csv", csv, mapping).tables["external"]["subject"][0]
    assert json.loads(subject)["workers"] == value


def test_lines_of_other_machines_and_logs_are_other_runs(csv: Path) -> None:
    header = "system,path,ranks,size_B,oop_time_us,ip_time_us,gpu,repo,commit,block,nodes"
    header += ",gpus_per_node,env_setup,dtype,redop"
    common = "repo,c0ffee,0,1,2,env1,float,sum"
    lines = [
        f"a,log1,2.0,1000,10.0,20.0,A100,{common}",
        f"a,log1,2.0,1000,12.0,20.0,A100,{common}",
        f"a,log2,4.0,1000,10.0,20.0,A100,{common}",
        f"b,log3,2.0,1000,10.0,20.0,,{common}",
    ]
    csv.write_text("\n".join([header, *lines]))
    first, second, third = imported(
        "csv", csv, ReaderOptions(mapping=FOLDER / "allreduce_nccl_tests.yaml")
    )
    rows = first.tables["allreduce"].sort("in_place", "trial")
    assert rows.select("in_place", "trial", "seconds").rows() == [
        (False, 0, 1e-5),
        (False, 1, 1.2e-5),
        (True, 0, 2e-5),
        (True, 1, 2e-5),
    ]
    assert rows["bus_bandwidth_Bps"][0] == pytest.approx(1e8)
    assert second.tables["allreduce"]["bus_bandwidth_Bps"][0] == pytest.approx(1.5e8)
    assert first.host == second.host == {"system": "a", "gpu": "A100"}
    assert third.host == {"system": "b"}
    assert [run.config["path"] for run in (first, second, third)] == ["log1", "log2", "log3"]


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.yaml")), ids=lambda file: file.stem)
def test_our_mappings_fill_their_tables(file: Path, tmp_path: Path) -> None:
    mapping = load(file)
    assert mapping.source
    assert mapping.url or file.stem == "node_prices"
    columns = {**mapping.columns, **mapping.rows[0]}
    assert set(columns) <= set(SCHEMAS[mapping.table].names)
    values = {name: "1" for name in mapping.source_names()}
    values |= {
        source.column or "": "2020-01-01T00:00:00Z"
        for source in mapping.sources()
        if source.kind == "time"
    }
    values |= {source.column or "": "us-east-1a" for source in mapping.sources() if source.pattern}
    csv = tmp_path / f"{file.stem}.csv"
    csv.write_text(f"{','.join(values)}\n{','.join(values.values())}\n")
    assert only("csv", csv).tables[mapping.table].height == len(mapping.rows)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("model,n,xla,ms\n", "no line below the header"),
        (
            "model,n, xla, ms\nvgg,1,0,1\n",
            r"no column 'ms', 'xla', .* found 'model', 'n', ' xla', ' ms'",
        ),
        (
            "model,n,ms\nvgg,1,1\n",
            r"no column 'xla', which mine\.yaml maps; found 'model', 'n', 'ms'",
        ),
        (
            "model,n,xla,ms\nvgg,1,0,1\nvgg,1.5,0,1\n",
            "line 3, column 'n': expected integer, found '1.5'",
        ),
        (
            "model,n,xla,ms\nvgg,4503599627370497.1,0,1\n",
            "line 2, column 'n': expected integer, found '4503599627370497.1'",
        ),
        ("model,n,xla,ms\nvgg,1,maybe,1\n", "line 2, column 'xla': expected flag, found 'maybe'"),
        ("model,n,xla,ms\nvgg,1,0,inf\n", "line 2, column 'ms': expected real, found 'inf'"),
        ("model,n,xla,ms\nvgg,1,0,1,2,3\n", "not a whole CSV file"),
        ("model;n;xla;ms\nvgg;1;0;1\n", "no column 'model', .*; found 'model;n;xla;ms'"),
        (
            'model,n,xla,ms\nvgg,1,0,"1,5"\n',
            "line 2, column 'ms': expected real, found '1,5'; mend the file, or say in the mapping",
        ),
        ("model,n,xla,ms\nvgg,1,0,n/a\n", "every value is missing"),
        ("\x00line,model,n,xla,ms\n1,vgg,1,0,1\n", "not a CSV file"),
        ("a" * (1 << 21), "line 1: longer than 1,048,576 characters"),
        ('model,n,xla,ms\n"vgg,1,0,1\n', "CSV file|expected"),
    ],
)
def test_bad_files_are_refused(csv: Path, mapping: ReaderOptions, text: str, message: str) -> None:
    csv.write_text(text)
    with pytest.raises(BadInput, match=message):
        imported("csv", csv, mapping)


def test_two_columns_of_one_name_are_refused_with_positions(
    csv: Path, mapping: ReaderOptions
) -> None:
    csv.write_text("\ufeffmodel,n,xla,n,ms,other,other\nvgg,1,0,8,12,x,y\n")
    with pytest.raises(BadInput, match=r"two columns of one name \('n' is column 2, 4\), of which"):
        imported("csv", csv, mapping)
    # Polars' name of the second one is a way to mean it.
    chosen = edited(mapping, "column: n,", "column: n_duplicated_0,")
    rows = only("csv", csv, chosen).tables["external"]
    assert json.loads(rows["subject"][0])["workers"] == 8


def test_lines_are_counted_through_names_and_cells_of_several(
    csv: Path, mapping: ReaderOptions
) -> None:
    csv.write_text('model,n,xla,ms,"a\nb"\n"v\ngg",1,0,1,\nvgg,x,0,1,\n')
    with pytest.raises(BadInput, match="line 5, column 'n': expected integer, found 'x'"):
        imported("csv", csv, mapping)


ALL_REDUCES = """\
table: allreduce
source: somebody
columns:
  library: {constant: nccl}
  world_size: {column: ranks, type: integer}
  size_bytes: {column: size, type: integer}
  seconds: {column: us, factor: 1.0e-6}
"""


@pytest.mark.parametrize(
    ("column", "right", "wrong"),
    [
        ("collective", ["all_reduce", "AllReduce", "all_reduce_perf"], "reduce_scatter"),
        ("root", ["-1", " -1.0"], "0"),
        ("redop", ["sum", ""], "none"),
    ],
)
def test_lines_of_other_collectives_are_refused(
    csv: Path, tmp_path: Path, column: str, right: list[str], wrong: str
) -> None:
    file = tmp_path / "allreduces.yaml"
    file.write_text(ALL_REDUCES)
    lines = [f"2,1000,10,{cell}\n" for cell in right]
    csv.write_text(f"ranks,size,us,{column}\n" + "".join(lines))
    rows = only("csv", csv, ReaderOptions(mapping=file)).tables["allreduce"]
    assert rows.height == len(right)
    csv.write_text(csv.read_text() + f"2,1000,10,{wrong}\n")
    where = f"line {len(right) + 2}, column '{column}'"
    with pytest.raises(BadInput, match=f"{where}: expected what an all-reduce has, found"):
        imported("csv", csv, ReaderOptions(mapping=file))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("columns:", "colums:", r"colums: no such key; did you mean columns\?"),
        (
            "{column: ms, factor: 0.001}",
            "{factor: 0.001}",
            r"rows\[0\]\.value: needs one of column",
        ),
        (
            "{column: n, type: integer}",
            "{column: n, factor: 2, type: flag}",
            "factor needs a number",
        ),
        ("source: somebody\n", "", "source: missing"),
        ("table: external", "table: allreduce", "does not fit mine.yaml"),
        ("{dnn: model,", "{dnn: {column: model, pattern: '('},", "pattern"),
        ("source: somebody", "source: [a", r"mine\.yaml line \d+: not valid YAML: "),
    ],
)
def test_bad_mappings_name_the_key(
    csv: Path, mapping: ReaderOptions, old: str, new: str, message: str
) -> None:
    csv.write_text("model,n,xla,ms\nvgg,1,0,1\n")
    with pytest.raises(BadInput, match=message):
        imported("csv", csv, edited(mapping, old, new))


def test_a_file_without_mapping_is_told_of_near_ones(tmp_path: Path) -> None:
    file = tmp_path / "tf_ops_dens.csv"
    file.write_text("a\n1\n")
    with pytest.raises(
        BadInput, match=r"no mapping is called 'tf_ops_dens' .there are tf_ops_dense"
    ):
        imported("csv", file)
    with pytest.raises(BadInput, match="--mapping /nowhere: no such file"):
        imported("csv", file, ReaderOptions(mapping=Path("/nowhere")))


def test_only_some_lines_are_kept_and_words_are_ours(csv: Path, mapping: ReaderOptions) -> None:
    options = edited(
        mapping, "{dnn: model,", "{dnn: {column: model, words: {vgg: vgg16, alex: alexnet}},"
    )
    fields = "source: somebody\nonly: {ms: '^[0-9]'}\nsample: {of: [model], lines: 2}\nhardware: T4"
    assert options.mapping is not None
    options.mapping.write_text(options.mapping.read_text().replace("source: somebody", fields))
    lines = [f"vgg,{n},0,{n}" for n in range(1, 6)] + ["alex,1,0,7", "other,1,0,-"]
    csv.write_text("model,n,xla,ms\n" + "\n".join(lines))
    run = only("csv", csv, options)
    assert [json.loads(subject)["dnn"] for subject in run.tables["external"]["subject"]] == [
        "vgg16",
        "vgg16",
        "alexnet",
    ]
    assert run.tables["external"]["value"].to_list() == [0.001, 0.004, 0.007]
    assert run.config["hardware"] == "T4"
    csv.write_text("model,n,xla,ms\nother,1,0,1\n")
    with pytest.raises(BadInput, match="line 2, column 'model': expected one of vgg, alex, found"):
        imported("csv", csv, options)
    csv.write_text("model,n,xla,ms\nvgg,1,0,-\n")
    with pytest.raises(BadInput, match="no line below the header that its mapping means"):
        imported("csv", csv, options)


def test_what_a_mapping_leaves_unsaid_is_not_in_its_hash() -> None:
    """Files that were imported with it would be refused."""
    hashes = {
        file.stem: content_hash(load(file).canonical_json()) for file in FOLDER.glob("*.yaml")
    }
    assert hashes["neusight_steps"] == "e6074f8a3ec0ea21"
    assert hashes["allreduce_nccl_tests"] == "93e8968fa43d3f73"
    assert hashes["tf_ops_dense"] == "6ed50d77d3ebf27b"
