"""`stepcast import`: runs with their source, once, all files or none."""

import json
import os
import shutil
from pathlib import Path

import polars as pl
import pytest

from forecasting.history_scope import visible_runs
from profilers.steady.host import host_id
from studies.study import read_study
from tests.models.gpu_step.traces import PRODUCT, write_trace
from tests.pipelines.ran import Stepcast
from tests.synthetic import PaperProbes, opened, profiled
from warehouse.landed_files import seal
from warehouse.sets import kept_runs, kept_tables
from warehouse.sql import read_only
from warehouse.warehouse import Warehouse

CSV = "model,gpu,n_workers,n_ps,n_points,path,wall_steps_s_after_warm,median_global_steps_s,"
CSV += "mean_after_warm,std_after_warm\nres,K80,{n},1,9,p,9.5,9.4,9.6,0.1\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "async_ps_cmdare.csv"
    file.write_text(CSV.format(n=2))
    return file


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "nccl.log"
    file.write_text(
        "# size count type redop root time algbw busbw\n# (B) (elements) (us) (GB/s) (GB/s)\n"
        " 1000000 250000 float sum -1 100.0 10.00 15.00\n"
    )
    return file


def test_a_run_keeps_where_it_is_from(stepcast: Stepcast, home: Path, file: Path) -> None:
    answer = stepcast("import", "csv", str(file), "--url", "https://example.org/x")
    assert (answer.code, answer.err) == (0, "")
    (line,) = answer.out.splitlines()
    assert line.startswith(
        "async_ps_cmdare.csv: imported 4 rows of external in 1 run (imported-csv-"
    )
    assert line.endswith("source cake-lab/CM-DARE")
    (row,) = read_only(home, "SELECT * FROM raw.run JOIN raw.source USING (run_id)").to_dicts()
    assert (row["backend"], row["probe"], row["purpose"]) == ("imported", "csv", "profile")
    assert (row["source"], row["licence"]) == ("cake-lab/CM-DARE", "Apache-2.0")
    assert (row["url"], row["host_id"]) == ("https://example.org/x", "imported")
    assert len(row["sha256"]) == 64


def test_a_file_of_another_format_is_told(stepcast: Stepcast, home: Path, log: Path) -> None:
    answer = stepcast("import", "iperf3", str(log), "--source", "us")
    assert f"{log} line 1: not JSON" in answer.refusal


PRICES = "node_type,region,since,usd_per_hour\ng5.xlarge,us-east-1,2026-11-01,{first}\n"
PRICES += "p5.4xlarge,us-east-1,2026-11-01,{second}\n"


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("-2.50", "4", "row 1 (g5.xlarge): usd_per_hour is -2.5"),
        ("2.50", "0", "row 2 (p5.4xlarge): usd_per_hour is 0.0"),
        ("2.50", "1e300", "row 2 (p5.4xlarge): usd_per_hour is 1e+300"),
    ],
)
def test_a_price_that_is_none_is_refused(
    stepcast: Stepcast, home: Path, tmp_path: Path, first: str, second: str, expected: str
) -> None:
    file = tmp_path / "node_prices.csv"
    file.write_text(PRICES.format(first=first, second=second))
    answer = stepcast("import", "csv", str(file))
    assert answer.refusal.startswith(f"stepcast: {file}: ")
    assert answer.refusal.endswith(
        f"{expected}, expected US dollars above 0 and at most 1,000,000,000"
    )
    assert list((home / "landing").iterdir()) == []


@pytest.mark.parametrize("price", ["-2.50", "2e9"])
def test_a_home_with_such_prices_answers_without_them(
    stepcast: Stepcast, home: Path, tmp_path: Path, price: str
) -> None:
    """Earlier versions took them, and a landing folder of somebody else may have them."""
    file = tmp_path / "node_prices.csv"
    file.write_text(PRICES.format(first="1", second="4"))
    folder = tmp_path / "theirs"
    assert stepcast("import", "csv", str(file)).code == 0
    (home / "landing").rename(folder)
    shutil.rmtree(home)
    for path in folder.glob("*/price.parquet"):
        rows = pl.read_parquet(path)
        is_first = pl.col("node_type") == "g5.xlarge"
        usd = pl.when(is_first).then(float(price)).otherwise("usd_per_hour")
        rows.with_columns(usd_per_hour=usd).write_parquet(path)
        seal(path.parent)
    assert stepcast("load", str(folder)).code == 0
    answer = stepcast("prices", "show", "--format", "json")
    seen = {row["node_type"]: row["usd_per_hour"] for row in answer.content}
    assert seen["p5.4xlarge"] == 4
    assert float(price) not in seen.values()


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("/proc/self/mem", "/proc/self/mem cannot be read: Input/output error"),
        ("{folder}/pipe", "{folder}/pipe is no file; expected a file to import"),
        ("/dev/zero", "/dev/zero is no file; expected a file to import"),
        ("{folder}", "{folder} is a folder; expected a file to import"),
        ("{folder}/none", "{folder}/none is not there; expected a file to import"),
    ],
)
@pytest.mark.parametrize("form", ["nccl-tests", "csv", "kineto"])
def test_what_is_no_file_to_import(
    stepcast: Stepcast, home: Path, tmp_path: Path, form: str, place: str, expected: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    answer = stepcast("import", form, place.format(folder=tmp_path), "--source", "x")
    assert (answer.code, answer.err) == (2, f"stepcast: {expected.format(folder=tmp_path)}\n")


@pytest.mark.parametrize(
    ("table", "said"), [("extrenal", "did you mean external?"), ("../../x", "there are")]
)
def test_a_mapping_fills_tables_of_measurements_only(
    stepcast: Stepcast, home: Path, file: Path, tmp_path: Path, table: str, said: str
) -> None:
    mapping = tmp_path / "mine.yaml"
    mapping.write_text(f"table: {table}\nsource: me\ncolumns: {{n: n_workers}}\n")
    answer = stepcast("import", "csv", str(file), "--mapping", str(mapping))
    assert f"names the raw table {table!r}; {said}" in answer.refusal


def test_what_is_left_out_is_told_and_kept(stepcast: Stepcast, home: Path, log: Path) -> None:
    log.write_text(f"NCCL INFO\nNCCL INFO\n{log.read_text()} 0 0 float sum -1 9.0 0.00 0.00\n")
    answer = stepcast("import", "nccl-tests", str(log), "--source", "us", "--world-size", "4")
    left_out = "; left out: 2 lines of other programs, 1 all-reduces of 0 bytes"
    assert answer.printed.rstrip().endswith(left_out)
    (config,) = read_only(home, "SELECT config FROM raw.run")["config"]
    counts = {"all-reduces of 0 bytes": 1, "lines of other programs": 2}
    assert json.loads(json.loads(config)["left_out"]) == counts


def test_again_changes_nothing(stepcast: Stepcast, home: Path, file: Path) -> None:
    stepcast("import", "csv", str(file))
    before = read_only(home, "SELECT * FROM raw.source")
    copy = file.with_name("copy") / file.name
    copy.parent.mkdir()
    copy.write_bytes(file.read_bytes())
    again = stepcast("import", "csv", str(file), str(copy))
    assert again.printed.count("imported before as imported-csv-") == 2
    assert again.printed.count("nothing changed") == 2
    assert read_only(home, "SELECT * FROM raw.source").equals(before)
    assert read_only(home, "SELECT * FROM raw.external").height == 4


def test_one_bad_file_and_nothing_lands(
    stepcast: Stepcast, home: Path, file: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad" / file.name
    bad.parent.mkdir()
    bad.write_text(CSV.format(n="two"))
    answer = stepcast("import", "csv", str(file), str(bad))
    assert f"{bad} line 2, column 'n_workers': expected integer, found 'two'" in answer.refusal
    assert list((home / "landing").iterdir()) == []


def test_other_options_for_the_same_file_are_refused(
    stepcast: Stepcast, home: Path, log: Path
) -> None:
    options = ("import", "nccl-tests", str(log), "--source", "us")
    assert stepcast(*options, "--world-size", "4").code == 0
    answer = stepcast(*options, "--world-size", "3")
    assert answer.code == 2
    assert "imported before with world_size 4, now 3; to replace it, delete " in answer.err
    # What the message says helps: the rows are replaced, not doubled.
    (run,) = (home / "landing").glob("imported-nccl-tests-*")
    for part in sorted(run.rglob("*"), reverse=True):
        part.unlink()
    run.rmdir()
    log_again = stepcast(*options, "--world-size", "4", "--purpose", "measurement")
    assert log_again.code == 0
    assert read_only(home, "SELECT purpose FROM raw.run").rows() == [("measurement",)]
    assert read_only(home, "SELECT world_size FROM raw.allreduce").rows() == [(4,)]


def test_a_source_is_needed(stepcast: Stepcast, home: Path, log: Path) -> None:
    answer = stepcast("import", "nccl-tests", str(log), "--world-size", "4")
    assert answer.refusal == "stepcast: nccl.log: who measured it? Say so with --source"


@pytest.fixture
def landing(tmp_path: Path, study_file: Path, probes: PaperProbes) -> Path:
    """Return another machine's landing folder, with three runs."""
    folder = tmp_path / "elsewhere"
    round_ = opened(read_study(study_file), "loopback", host_id(), [])
    profiled(round_, folder)
    return folder


PUBLIC = Path(__file__).parents[3] / "data" / "public"


def loaded(home: Path) -> int:
    return int(read_only(home, "SELECT count(*) AS runs FROM raw.run")["runs"][0])


def test_runs_of_another_machine_are_copied_and_loaded_once(
    stepcast: Stepcast, home: Path, landing: Path
) -> None:
    first = stepcast("load", str(landing))
    assert (first.code, first.out) == (
        0,
        f"copied 3 runs from {landing}\nloaded 3 runs, 0 were there already\n",
    )
    second = stepcast("load", str(landing))
    assert second.out == f"copied 0 runs from {landing}\nloaded 0 runs, 3 were there already\n"
    assert loaded(home) == 3
    assert len(list(landing.iterdir())) == 3
    (broken,) = (home / "landing").glob("*-links-*")
    pl.read_parquet(broken / "link.parquet").drop("bytes").write_parquet(broken / "link.parquet")
    seal(broken)
    third = stepcast("load")
    assert third.code == 2
    assert f"{broken.name} was set aside: link.parquet: missing columns bytes" in third.err
    way_out = "; to try one again, move its folder back to landing/ and run `stepcast load`\n"
    assert third.err.endswith(f"see {home}/landing/quarantine{way_out}")


def test_public_measurements_have_their_sources() -> None:
    notice = " ".join((PUBLIC.parents[1] / "NOTICE").read_text().split())
    for folder in PUBLIC.iterdir():
        runs = kept_runs(folder)
        assert {run.config["mapping"] for run in runs} == {it.stem for it in folder.glob("*.yaml")}
        for run in runs:
            (source,) = kept_tables(folder, run.run_id)["source"].to_pylist()
            assert (run.backend, run.purpose) == ("imported", "profile")
            assert source["licence"] and run.config["hardware"] and run.config["step"]
            assert source["source"].split(" (")[0].split(", ")[0] in notice
    assert sum(file.stat().st_size for file in PUBLIC.rglob("*.*")) < 10e6


def test_a_trace_of_ones_own_counts_for_its_node_type(
    stepcast: Stepcast, home: Path, tmp_path: Path
) -> None:
    trace = write_trace(tmp_path / "step.json", [(*PRODUCT, 40.0)])
    wrong = stepcast("import", "kineto", str(trace), "--worker", "gpu.a10g")
    assert "the trace is of NVIDIA L4, and gpu.a10g has NVIDIA A10G" in wrong.refusal
    unknown = write_trace(tmp_path / "unknown.json", [(*PRODUCT, 40.0)], gpu="")
    refused = stepcast("import", "kineto", str(unknown), "--worker", "gpu.l4")
    assert "of a GPU that it does not name" in refused.refusal
    assert stepcast("import", "kineto", str(trace), "--worker", "g6.xlarge").code == 0
    (run,) = visible_runs(Warehouse(home), public=True)
    assert (run.subject.probe, run.subject.worker_types) == ("kineto", frozenset({"g6.xlarge"}))
    (row,) = read_only(home, "SELECT source FROM raw.source").to_dicts()
    assert row["source"] == "your trace step.json"


def nccl_log(path: Path, hosts: tuple[str, ...], gpu: str, us: float = 4600.0) -> Path:
    """Write an all-reduce of 1 GiB among eight GPUs of each host."""
    listed = [
        f"#  Rank {8 * node + rank} Group 0 Pid 1 on {host} device {rank} [0x10] {gpu}"
        for node, host in enumerate(hosts)
        for rank in range(8)
    ]
    columns = "# size count type redop root time algbw busbw\n# (B) (elements) (us) (GB/s) (GB/s)"
    rate, ranks = 2**30 / us / 1e3, len(listed)
    row = f" {2**30} {2**28} float sum -1 {us} {rate:.4f} {2 * (ranks - 1) / ranks * rate:.4f}"
    path.write_text("\n".join(["# Using devices", *listed, columns, row, ""]))
    return path


def iperf3_report(path: Path, gbps: float) -> Path:
    """Write a report of ten seconds of four flows."""
    received = {"seconds": 10.0, "bytes": int(gbps * 1e10 / 32), "bits_per_second": gbps * 1e9 / 4}
    sent = {"bytes": received["bytes"], "sender": True}
    start = {
        "version": "iperf 3.12",
        "timestamp": {"timesecs": 1_700_000_000},
        "test_start": {"protocol": "TCP", "duration": 10},
    }
    streams = [{"sender": sent, "receiver": received}] * 4
    path.write_text(json.dumps({"start": start, "end": {"streams": streams}}))
    return path


def test_a_log_of_collectives_and_a_report_of_links_count_for_their_node_type(
    stepcast: Stepcast, home: Path, tmp_path: Path
) -> None:
    h100, two = "NVIDIA H100 80GB HBM3", ("a", "b")
    log = nccl_log(tmp_path / "two.log", two, h100)
    assert stepcast("import", "nccl-tests", str(log), "--worker", "p5.48xlarge").code == 0
    report = iperf3_report(tmp_path / "link.json", 8.0)
    assert stepcast("import", "iperf3", str(report), "--worker", "p3.8xlarge").code == 0
    runs = {run.subject.probe: run.subject for run in visible_runs(Warehouse(home), public=True)}
    assert {probe: run.worker_types for probe, run in runs.items()} == {
        "nccl-tests": frozenset({"p5.48xlarge"}),
        "iperf3": frozenset({"p3.8xlarge"}),
    }
    sources = set(read_only(home, "SELECT source FROM raw.source")["source"])
    assert sources == {"your nccl-tests log two.log", "your iperf3 report link.json"}
    config = read_only(home, "SELECT config FROM raw.run WHERE probe = 'nccl-tests'")["config"][0]
    assert json.loads(config)["nodes"] == 2


@pytest.mark.parametrize(
    ("hosts", "gpu", "us", "told"),
    [
        (("a", "b"), "NVIDIA A100-SXM4-80GB", 4600.0, "p5.48xlarge has NVIDIA H100 80GB HBM3"),
        # Twice as fast as eight links of 450 GB/s can be.
        (("a", "b"), "NVIDIA H100 80GB HBM3", 1200.0, "rated 400 GB/s"),
        (("a", "a", "b", "b"), "NVIDIA H100 80GB HBM3", 4600.0, "32 ranks on 2 hosts"),
    ],
)
def test_a_log_that_cannot_be_of_its_node_type_is_refused(
    hosts: tuple[str, ...],
    gpu: str,
    us: float,
    told: str,
    stepcast: Stepcast,
    home: Path,
    tmp_path: Path,
) -> None:
    log = nccl_log(tmp_path / "two.log", hosts, gpu, us)
    answer = stepcast("import", "nccl-tests", str(log), "--worker", "p5.48xlarge")
    assert told in answer.refusal


def test_links_are_held_to_what_a_node_type_is_rated(
    stepcast: Stepcast, home: Path, tmp_path: Path
) -> None:
    report = str(iperf3_report(tmp_path / "link.json", 15.0))
    fast = stepcast("import", "iperf3", report, "--worker", "p3.8xlarge")
    assert "rated 1.25 GB/s" in fast.refusal
    # NCCL crosses EFA there; and a tenth of what it is rated is worth a word.
    iperf3_report(tmp_path / "link.json", 20.0)
    slow = stepcast("import", "iperf3", report, "--worker", "p5.48xlarge")
    assert "no forecast rests on it" in slow.printed and "less than a tenth" in slow.printed
    other = stepcast("import", "pcap", report, "--worker", "p5.48xlarge")
    assert "--worker is for iperf3, kineto, nccl-tests" in other.refusal


def test_what_is_given_to_others_has_no_name_of_a_host(
    stepcast: Stepcast, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the profiler names traces by their host; of runs, only one's own are packed."""
    monkeypatch.setattr("socket.gethostname", lambda: "secret-host-7")
    trace = write_trace(tmp_path / "secret-host-7_42.pt.trace.json", [(*PRODUCT, 40.0)])
    assert stepcast("import", "kineto", str(trace), "--worker", "gpu.l4").code == 0
    other = tmp_path / "async_ps_cmdare.csv"
    other.write_text(CSV.format(n=2))
    assert stepcast("import", "csv", str(other)).code == 0
    packed = stepcast("export", "imported", str(tmp_path / "given"), "--public")
    assert packed.code == 0 and "packed 1 of 1 runs" in packed.out
    assert "names and addresses of nodes" in packed.out
    files = [path for path in (tmp_path / "given").rglob("*") if path.is_file()]
    text = b"".join(
        repr(pl.read_parquet(path).to_dicts()).encode() if path.suffix == ".parquet" else b""
        for path in files
    )
    assert b"NVIDIA L4" in text
    for content in (text, *(path.read_bytes() for path in files)):
        assert b"secret-host-7" not in content
    monkeypatch.setenv("STEPCAST_HOME", str(tmp_path / "another"))
    assert stepcast("load", str(tmp_path / "given")).code == 0
    (run,) = visible_runs(Warehouse(tmp_path / "another"), public=True)
    assert run.subject.worker_types == {"gpu.l4"}
