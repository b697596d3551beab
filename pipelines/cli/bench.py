"""`stepcast bench`: how fast Stepcast itself is. Each benchmark is one command of the group."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

from pipelines.cli.tables import print_table, print_text
from warehouse.records import BadInput

bench = typer.Typer(
    name="bench",
    help="Measure how fast Stepcast itself is, beside a peer.\n\nExample: stepcast bench ingest",
    no_args_is_help=True,
    rich_markup_mode=None,
)

AsJson = Annotated[bool, typer.Option("--json", help="One object of figures.")]


class _Figures(Protocol):
    def to_dict(self) -> dict[str, Any]: ...


def _progress(line: str) -> None:
    typer.echo(line, err=True)


def _print(
    measured: _Figures, as_json: bool, titles: Sequence[str], rows: Iterable[Sequence[str]]
) -> None:
    """Print the figures of a benchmark as JSON, or rows of them as a table."""
    import polars as pl

    if as_json:
        typer.echo(json.dumps(measured.to_dict()))
    else:
        print_table(pl.DataFrame(list(rows), schema=list(titles), orient="row"))


@bench.command()
def ingest(
    rows: Annotated[int, typer.Option(help="Timings in the history that is asked.")] = 100_000_000,
    as_json: AsJson = False,
) -> None:
    """Time RunMetadata to Parquet, Parquet to DuckDB, and questions to a large history.

    A tenth of the rows is loaded, 1/400 of them is read as RunMetadata. The default takes a
    minute or two on two cores and 1.2 GB of the home (STEPCAST_HOME), given back at the end.

    Example: stepcast bench ingest --rows 10000000 --json
    """
    from benchmarks.ingest import measure

    measured = measure(rows, _progress)
    _print(
        measured,
        as_json,
        ["part", "rows", "speed", "as fast as its peer", "peak memory"],
        [
            (
                "RunMetadata to Parquet",
                f"{measured.runmetadata_operations:,}",
                f"{measured.runmetadata_ops_per_s:,.0f} operations/s",
                f"{measured.runmetadata_vs_tensorflow:.2f} x TensorFlow's classes",
                f"{measured.runmetadata_peak_mb:.0f} MB",
            ),
            (
                "Parquet to DuckDB",
                f"{measured.load_rows:,}",
                f"{measured.load_rows_per_s:,.0f} rows/s",
                f"{measured.load_vs_pyarrow:.2f} x whole tables by pyarrow, unchecked",
                f"{measured.load_peak_mb:.0f} MB",
            ),
            (
                "top operations",
                f"{measured.query_rows:,}",
                f"{measured.query_100m_s:.3f} s",
                f"{measured.query_vs_all_timings:.1f} x reading all timings",
                f"{measured.query_peak_mb:.0f} MB",
            ),
        ],
    )


@bench.command()
def ceer(
    rows: Annotated[int, typer.Option(help="Profiled operations in the history.")] = 10_000_000,
    as_json: AsJson = False,
) -> None:
    """Time Ceer: from a history of operations to a saved fit, and one network on each node type.

    On one core. The default takes about a minute and 1 GB of the home (STEPCAST_HOME), given
    back at the end.

    Example: stepcast bench ceer --rows 1000000 --json
    """
    from benchmarks.ceer import measure

    measured = measure(rows, _progress)
    _print(
        measured,
        as_json,
        ["Ceer", "figure"],
        [
            ("operations fitted", f"{measured.fit_rows:,} of {measured.fit_types} types"),
            ("history to saved fit", f"{measured.fit_s:.1f} s"),
            ("peak memory", f"{measured.fit_peak_mb:.0f} MB"),
            (
                f"a network on {measured.predict_node_types} node types",
                f"{measured.predict_ms:.1f} ms",
            ),
        ],
    )


@bench.command()
def simulator(
    as_json: AsJson = False,
) -> None:
    """Time the simulator of asynchronous SGD beside the same model in SimPy and a bare heap.

    The job has Inception-v3's size. Takes less than a minute, more where it has to be compiled.

    Example: stepcast bench simulator --json
    """
    from benchmarks.simulator import measure

    measured = measure(progress=_progress)
    _print(
        measured,
        as_json,
        ["simulator of asynchronous SGD", "figure"],
        [
            ("compiled", f"{measured.events_per_s:,.0f} events/s"),
            ("SimPy", f"{measured.simpy_events_per_s:,.0f} events/s"),
            ("compiled, compared with SimPy", f"{measured.ratio_to_simpy:,.0f} x"),
            ("a heap of 16 alone", f"{measured.heap_16_events_per_s:,.0f} events/s"),
            ("a heap of 256 alone", f"{measured.heap_256_events_per_s:,.0f} events/s"),
            ("a heap of 4,096 alone", f"{measured.heap_4096_events_per_s:,.0f} events/s"),
            (
                f"a heap of {measured.pending:.0f} alone, as many as are pending",
                f"{measured.heap_events_per_s:,.0f} events/s",
            ),
            ("compiled, compared with that heap", f"{measured.ratio_to_heap:.2f} x"),
            ("2 to 10 workers, 1,000 steps each", f"{measured.inception_w2_10_s:.1f} s"),
            ("peak memory, 1,000 workers", f"{measured.peak_mb:.0f} MB"),
        ],
    )


@bench.command()
def optimizer(
    as_json: AsJson = False,
) -> None:
    """Time Srift's optimiser on the paper's case studies and on a catalogue of 40 node types.

    Profiles are made up. Every choice is confirmed by the event simulator. Takes some seconds.

    Example: stepcast bench optimizer --json
    """
    from benchmarks.optimizer import measure

    measured = measure(progress=_progress)
    names = ("case 1", "case 2", "case 3", f"{measured.catalogue_configurations:,} configurations")
    times_s = (measured.case1_s, measured.case2_s, measured.case3_s, measured.catalogue_s)
    _print(
        measured,
        as_json,
        ["search", "time", "choice"],
        [
            (name, f"{time_s:.3f} s", choice)
            for name, time_s, choice in zip(names, times_s, measured.choices, strict=True)
        ],
    )


@bench.command()
def sweep(
    data: Annotated[Path, typer.Argument(help="Public measurements.")] = Path("data/public"),
    networks: Annotated[int, typer.Option(min=1, max=8, help="Each has 13,680 scenarios.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Time forecasts of studies/sweeps/aws_gpus.yaml: a plain loop, and one and two processes.

    A first loop traces the networks; later ones read what it kept. With two networks it takes
    about three minutes on two cores.

    Example: stepcast bench sweep --networks 8 --json
    """
    from pipelines.cli.sweep_bench import measure

    measured = measure(networks, data, _progress)
    loop_s = measured.loop_s
    times_s = (loop_s, measured.one_process_s, measured.two_processes_s)
    names = ("a plain loop", "Dagster, 1 process", "Dagster, 2 processes")
    _print(
        measured,
        as_json,
        [f"{measured.scenarios:,} scenarios", "time", "scenarios/s", "beside the loop"],
        [
            (name, f"{time_s:.1f} s", f"{measured.per_s(time_s):,.0f}", f"{loop_s / time_s:.2f}")
            for name, time_s in zip(names, times_s, strict=True)
        ],
    )
    if not as_json:
        equal = "the same bytes" if measured.are_equal else "NOT the same bytes"
        print_text(
            f"All made {equal}. Tracing the networks took {measured.traced_s - measured.loop_s:.1f}"
            f" s, once. Parts of the loop: the first {measured.first_part_s:.2f} s, the last "
            f"{measured.last_part_s:.2f} s."
        )


@bench.command()
def history(
    factor: Annotated[int, typer.Option(min=1, help="How often each of our runs is there.")] = 6,
    large_runs: Annotated[
        int, typer.Option(min=0, help="Further runs, of 50 million timings each.")
    ] = 0,
    slowest: Annotated[int, typer.Option(min=1, help="Queries that are shown.")] = 8,
    as_json: AsJson = False,
) -> None:
    """Time what is done every day in a copy of this home's history, grown by a factor.

    Publishing, loading one more run, writing 10,000 forecasts, and all ready queries. With the
    reference runs loaded the default is of 10,741 runs: a minute, and 1 GB of the home, given back
    at the end. A large run takes 10 s more and 0.3 GB.

    Example: stepcast bench history --factor 100 --json

    Example: stepcast bench history --large-runs 20
    """
    from benchmarks.large_history import measure

    measured = measure(factor, _progress, large_runs=large_runs)
    _print(
        measured,
        as_json,
        ["history", "time"],
        [
            (f"{measured.runs:,} runs", f"{measured.megabytes:,.0f} MB"),
            *(
                (f"load 50 million timings, the {which} time", f"{time_s:.1f} s")
                for which, time_s in zip(
                    ("first", "last"), measured.load_large_s[:: large_runs - 1 or 1], strict=False
                )
            ),
            (f"timings of one run, of {measured.timings:,}", f"{measured.own_timings_s:.2f} s"),
            ("publish all of it", f"{measured.whole_publication_s:.2f} s"),
            ("publish the blocks that differ", f"{measured.publication_s:.2f} s"),
            ("load one more run, and publish", f"{measured.load_s:.2f} s"),
            ("write 10,000 forecasts, and publish", f"{measured.ledger_s:.2f} s"),
            *(
                (f"query {name}", f"{time_s:.2f} s")
                for name, time_s in list(measured.queries_s.items())[:slowest]
            ),
            (
                "queries within a second",
                f"{sum(time_s < 1 for time_s in measured.queries_s.values())} of "
                f"{len(measured.queries_s)}",
            ),
        ],
    )


@bench.command()
def fleet(
    members: Annotated[int, typer.Option(min=1, max=60_000, help="Node types.")] = 100,
    days: Annotated[int, typer.Option(min=1, help="From the first night to the last one.")] = 365,
    replayed: Annotated[
        int, typer.Option(min=1, help="Nights at either end that are replayed; others are copies.")
    ] = 7,
    as_json: AsJson = False,
) -> None:
    """Time a fleet that is watched each night and profiled each week of a simulated year.

    Recorded probes are replayed: they land, are loaded, judged and published, and alarms are probed
    a second time. Nights between the first and the last are copies in the warehouse; `--replayed`
    of half the days or more replays all. The default takes a minute or two, and 1 GB of the
    home, given back at the end.

    Example: stepcast bench fleet --members 1000 --replayed 3 --json
    """
    from pipelines.cli.fleet_bench import measure

    measured = measure(members, days, replayed, _progress)
    _print(
        measured,
        as_json,
        [f"{members:,} members, {measured.days} days", "first week", "last week"],
        [
            ("a night", f"{measured.first_night_s:.1f} s", f"{measured.last_night_s:.1f} s"),
            (
                "of that, to load and publish a run",
                f"{measured.first_load_ms:.0f} ms",
                f"{measured.last_load_ms:.0f} ms",
            ),
            ("memory", f"{measured.first_mb:.0f} MB", f"{measured.last_mb:.0f} MB"),
            *((name, "", f"{time_s:.2f} s") for name, time_s in measured.pages_s.items()),
            *(
                (f"query {name}", "", f"{time_s:.2f} s")
                for name, time_s in measured.queries_s.items()
            ),
        ],
    )
    if not as_json:
        print_text(
            f"{measured.nights} nights were replayed. {measured.runs:,} runs, "
            f"{measured.megabytes:,.0f} MB; at most {measured.peak_mb:.0f} MB of memory. "
            f"{measured.alarms} alarms; {measured.changed} members changed."
        )


@bench.command()
def readers(
    ways: Annotated[
        list[str] | None, typer.Argument(help="Some of the ways; all without one.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=1, help="How long each way is tried.")] = 30,
    runs: Annotated[int, typer.Option(min=1, help="Runs that are there before.")] = 300,
    as_json: AsJson = False,
) -> None:
    """Ask one history from eight processes, while four load and some of all are killed.

    Ways: copies, parquet, ducklake, quack, quack-attached. The last three need the extra `readers`
    and DuckLake needs PostgreSQL. Folders are under the home (STEPCAST_HOME), given back at the
    end. All take four minutes. What is lost, doubled or seen in part is counted; docs/readers.md
    says what that means.

    Example: stepcast bench readers copies quack --seconds 20 --json
    """
    from benchmarks.remote_readers import WAYS, Size, measure

    if ways and (unknown := set(ways) - set(WAYS)):
        raise BadInput(f"no way {min(unknown)!r}; the ways are {', '.join(WAYS)}")
    measured = measure(ways or tuple(WAYS), Size(runs=runs, seconds=seconds), _progress)
    _print(
        measured,
        as_json,
        [
            "way",
            "answers",
            "median, p95 (s)",
            "in part",
            "behind",
            "silence (s)",
            "runs given",
            "median, p95",
            "failed",
            "kills",
            "lost, doubled",
        ],
        [
            (
                way.way,
                f"{way.answers:,}",
                f"{way.question_p50_s:.2f}, {way.question_p95_s:.2f}",
                f"{way.partial}",
                f"{way.behind:.0f}",
                f"{way.silence_s:.1f}",
                f"{way.acknowledged}",
                f"{way.append_p50_s:.2f}, {way.append_p95_s:.2f}",
                f"{way.question_errors + way.append_errors}",
                f"{sum(way.kills.values())}",
                f"{way.lost}, {way.doubled}",
            )
            for way in measured.ways
        ],
    )
    if not as_json:
        for way in measured.ways:
            if way.crashes or way.hung:
                print_text(f"{way.way}: {way.crashes} servers crashed, {way.hung} processes hung")
            for message, count in way.messages.items():
                print_text(f"{way.way}: {count} x {message}")


@bench.command()
def predictddl(
    as_json: AsJson = False,
) -> None:
    """Time PredictDDL: an embedding, a graph, 100 forecasts, and eight workloads beside Ernest.

    On one core, with frameworks loaded; medians. Steps that it learns from are made up. What runs
    take, Ernest's and those that PredictDDL learns from, is what a plan expects of them.

    The 100 forecasts embed 100 graphs that no run had; tracing is not in them. The networks of the
    eight workloads never ran either; there, our time is of tracing, the fit and forecasts.

    Example: stepcast bench predictddl --json
    """
    from benchmarks.predictddl import measure

    measured = measure(progress=_progress)
    _print(
        measured,
        as_json,
        ["PredictDDL", "figure"],
        [
            ("embedding of 500 nodes", f"{measured.embed_ms:.1f} ms"),
            ("graph of ResNet-50", f"{measured.trace_ms:.0f} ms"),
            ("100 forecasts", f"{measured.batch100_s:.2f} s"),
            ("eight workloads, Ernest's time over ours", f"{measured.ratio_to_ernest:,.0f} x"),
            ("the same without Ernest's runs", f"{measured.ratio_without_probes:.4f} x"),
            (
                "the same with runs of both: Ernest's, and those we learn from",
                f"{measured.ratio_with_training_runs:.2f} x",
            ),
        ],
    )


@bench.command()
def gpu(
    folder: Annotated[
        Path, typer.Argument(help="Folders of sets with public measurements.")
    ] = Path("data/public"),
    page: Annotated[
        Path | None,
        typer.Option(help="A page of error figures that gets the table, too: docs/accuracy.md."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Judge forecasts of steps on GPUs by public measurements, each left out of its own fit.

    Families of networks, devices (all boards of a chip) and models are left out in turn: of their
    operators, of the host's times and of the widths of intervals. Errors are means of sizes,
    percent; the floor is how far repeated measurement is apart. The history is not asked. Takes
    half a minute.

    Example: stepcast bench gpu --json
    """
    from benchmarks.gpu import measure
    from reports import accuracy_page

    if page is not None and not page.is_file():
        raise BadInput(f"--page: there is no page {page}; `stepcast reproduce` makes one")
    measured = measure(folder, progress=_progress)
    if page is not None:
        text = accuracy_page.with_gpus(page.read_text(), measured.to_dict()["figures"])
        page.write_text(text)
    _print(
        measured,
        as_json,
        ["judged on", "n", "error", "median", "largest", "goal", "floor", "beside it"],
        [
            (
                figure.judged,
                str(figure.n),
                f"{figure.error:.1f} %",
                f"{figure.median:.1f} %",
                f"{figure.largest:.1f} %",
                figure.goal,
                "" if figure.floor is None else f"{figure.floor:.1f} %",
                figure.beside,
            )
            for figure in measured.figures
        ],
    )
    if not as_json:
        print_text(f"{measured.answered} of {measured.asked} steps of gpu_h100 have a forecast.")
        print_text(
            f"One of the largest network, on 20 devices, takes {measured.forecast_ms:.0f} ms."
        )


@bench.command()
def predict(
    as_json: AsJson = False,
) -> None:
    """Time the answer about a user's own model, stage by stage, beside tracing it alone.

    Medians of three. Asks a copy of the history of this home (STEPCAST_HOME), which needs steps of
    other networks on emu.avx512.s15: `stepcast reproduce data/reference --study reference_grid`.

    Example: stepcast bench predict --json
    """
    from pipelines.cli.predict_bench import measure

    measured = measure(progress=_progress)
    _print(
        measured,
        as_json,
        ["answer about an own model", "figure"],
        [
            ("imports", f"{measured.imports_s:.2f} s"),
            ("tracing the model", f"{measured.trace_s:.2f} s"),
            ("opening the history", f"{measured.open_s:.2f} s"),
            ("rows that fits rest on", f"{measured.rows_s:.2f} s"),
            ("views", f"{measured.views_s:.2f} s"),
            ("loading kept fits", f"{measured.fits_s:.2f} s"),
            ("forecasting", f"{measured.forecast_s:.2f} s"),
            ("the command", f"{measured.command_s:.2f} s"),
            ("the command, compared with tracing", f"{measured.ratio_to_trace:.2f} x"),
        ],
    )
