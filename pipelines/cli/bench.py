"""`stepcast bench`: how fast Stepcast itself is. Each benchmark is one command of the group."""

import json
from pathlib import Path
from typing import Annotated

import typer

bench = typer.Typer(
    name="bench",
    help="Measure how fast Stepcast itself is, beside a peer.\n\nExample: stepcast bench ingest",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@bench.command()
def ingest(
    rows: Annotated[int, typer.Option(help="Timings in the history that is asked.")] = 100_000_000,
    as_json: Annotated[bool, typer.Option("--json", help="One object of figures.")] = False,
) -> None:
    """Time RunMetadata to Parquet, Parquet to DuckDB, and questions to a large history.

    A tenth of the rows is loaded, 1/400 of them is read as RunMetadata. The default takes a
    minute or two on two cores and 1.2 GB of the home (STEPCAST_HOME), given back at the end.

    Example: stepcast bench ingest --rows 10000000 --json
    """
    import polars as pl

    from benchmarks.ingest import measure
    from pipelines.cli.tables import print_table

    measured = measure(rows, lambda line: typer.echo(line, err=True))
    if as_json:
        typer.echo(json.dumps(measured.to_dict()))
        return
    print_table(
        pl.DataFrame(
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
            schema=["part", "rows", "speed", "as fast as its peer", "peak memory"],
            orient="row",
        )
    )


@bench.command()
def ceer(
    rows: Annotated[int, typer.Option(help="Profiled operations in the history.")] = 10_000_000,
    as_json: Annotated[bool, typer.Option("--json", help="One object of figures.")] = False,
) -> None:
    """Time Ceer: from a history of operations to a saved fit, and one network on each node type.

    On one core. The default takes about a minute and 1 GB of the home (STEPCAST_HOME), given
    back at the end.

    Example: stepcast bench ceer --rows 1000000 --json
    """
    import polars as pl

    from benchmarks.ceer import measure
    from pipelines.cli.tables import print_table

    measured = measure(rows, lambda line: typer.echo(line, err=True))
    if as_json:
        typer.echo(json.dumps(measured.to_dict()))
        return
    print_table(
        pl.DataFrame(
            [
                ("operations fitted", f"{measured.fit_rows:,} of {measured.fit_types} types"),
                ("history to saved fit", f"{measured.fit_s:.1f} s"),
                ("peak memory", f"{measured.fit_peak_mb:.0f} MB"),
                (
                    f"a network on {measured.predict_node_types} node types",
                    f"{measured.predict_ms:.1f} ms",
                ),
            ],
            schema=["Ceer", "figure"],
            orient="row",
        )
    )


@bench.command()
def simulator(
    as_json: Annotated[bool, typer.Option("--json", help="One object of figures.")] = False,
) -> None:
    """Time the simulator of asynchronous SGD beside the same model in SimPy.

    The job has Inception-v3's size. Takes less than a minute, more where it has to be compiled.

    Example: stepcast bench simulator --json
    """
    import polars as pl

    from benchmarks.simulator import measure
    from pipelines.cli.tables import print_table

    measured = measure(progress=lambda line: typer.echo(line, err=True))
    if as_json:
        typer.echo(json.dumps(measured.to_dict()))
        return
    print_table(
        pl.DataFrame(
            [
                ("compiled", f"{measured.events_per_s:,.0f} events/s"),
                ("SimPy", f"{measured.simpy_events_per_s:,.0f} events/s"),
                ("compiled, compared with SimPy", f"{measured.ratio_to_simpy:,.0f} x"),
                ("2 to 10 workers, 1,000 steps each", f"{measured.inception_w2_10_s:.1f} s"),
                ("peak memory, 1,000 workers", f"{measured.peak_mb:.0f} MB"),
            ],
            schema=["simulator of asynchronous SGD", "figure"],
            orient="row",
        )
    )


@bench.command()
def optimizer(
    as_json: Annotated[bool, typer.Option("--json", help="One object of figures.")] = False,
) -> None:
    """Time Srift's optimiser on the paper's case studies and on a catalogue of 40 node types.

    Profiles are made up. Every choice is confirmed by the event simulator. Takes some seconds.

    Example: stepcast bench optimizer --json
    """
    import polars as pl

    from benchmarks.optimizer import measure
    from pipelines.cli.tables import print_table

    measured = measure(progress=lambda line: typer.echo(line, err=True))
    if as_json:
        typer.echo(json.dumps(measured.to_dict()))
        return
    names = ("case 1", "case 2", "case 3", f"{measured.catalogue_configurations:,} configurations")
    times_s = (measured.case1_s, measured.case2_s, measured.case3_s, measured.catalogue_s)
    print_table(
        pl.DataFrame(
            [
                (name, f"{time_s:.3f} s", choice)
                for name, time_s, choice in zip(names, times_s, measured.choices, strict=True)
            ],
            schema=["search", "time", "choice"],
            orient="row",
        )
    )


@bench.command()
def predictddl(
    as_json: Annotated[bool, typer.Option("--json", help="One object of figures.")] = False,
) -> None:
    """Time PredictDDL: an embedding, a graph, 100 forecasts, and eight workloads beside Ernest.

    On one core, with frameworks loaded; medians. Steps that it learns from are made up. What runs
    take, Ernest's and those that PredictDDL learns from, is what a plan expects of them.

    The 100 forecasts embed 100 graphs that no run had; tracing is not in them. The networks of the
    eight workloads never ran either; there, our time is of tracing, the fit and forecasts.

    Example: stepcast bench predictddl --json
    """
    import polars as pl

    from benchmarks.predictddl import measure
    from pipelines.cli.tables import print_table

    measured = measure(progress=lambda line: typer.echo(line, err=True))
    if as_json:
        typer.echo(json.dumps(measured.to_dict()))
        return
    print_table(
        pl.DataFrame(
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
            schema=["PredictDDL", "figure"],
            orient="row",
        )
    )


@bench.command()
def gpu(
    folder: Annotated[
        Path, typer.Argument(help="Folders of sets with public measurements.")
    ] = Path("data/public"),
    as_json: Annotated[bool, typer.Option("--json", help="One object of figures.")] = False,
) -> None:
    """Judge forecasts of steps on GPUs by public measurements, each left out of its own fit.

    Families of networks, devices (all boards of a chip) and models are left out in turn: of their
    operators, of the host's times and of the widths of intervals. Errors are means of sizes,
    percent; the floor is how far repeated measurement is apart. The history is not asked. Takes
    half a minute.

    Example: stepcast bench gpu --json
    """
    import polars as pl

    from benchmarks.gpu import measure
    from pipelines.cli.tables import print_table, print_text

    measured = measure(folder, progress=lambda line: typer.echo(line, err=True))
    if as_json:
        typer.echo(json.dumps(measured.to_dict()))
        return
    print_table(
        pl.DataFrame(
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
            ["judged on", "n", "error", "median", "largest", "goal", "floor", "beside it"],
            orient="row",
        )
    )
    print_text(f"{measured.answered} of {measured.asked} steps of gpu_h100 have a forecast.")
    print_text(f"One of the largest network, on 20 devices, takes {measured.forecast_ms:.0f} ms.")


@bench.command()
def predict(
    as_json: Annotated[bool, typer.Option("--json", help="One object of figures.")] = False,
) -> None:
    """Time the answer about a user's own model, stage by stage, beside tracing it alone.

    Medians of three. Asks a copy of the history of this home (STEPCAST_HOME), which needs steps of
    other networks on emu.avx512.s15: `stepcast reproduce data/reference --study reference_grid`.

    Example: stepcast bench predict --json
    """
    import polars as pl

    from pipelines.cli.predict_bench import measure
    from pipelines.cli.tables import print_table

    measured = measure(progress=lambda line: typer.echo(line, err=True))
    if as_json:
        typer.echo(json.dumps(measured.to_dict()))
        return
    print_table(
        pl.DataFrame(
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
            schema=["answer about an own model", "figure"],
            orient="row",
        )
    )
