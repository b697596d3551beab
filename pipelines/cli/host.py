"""`stepcast doctor`, `reap`, `support` and `ui`: this machine and what it offers."""

import os
import sys
from contextlib import suppress
from enum import StrEnum
from typing import Annotated, Any

import typer

from pipelines.cli.query import Form
from pipelines.cli.tables import print_frame, print_text, tell


def doctor() -> None:
    """Say what this machine can do, and what mends what is missing.

    Example: stepcast doctor
    """
    from pipelines.cli import doctor as examination

    findings = examination.examine()
    examination.print_findings(findings)
    raise typer.Exit(examination.exit_code(findings))


def reap() -> None:
    """Remove what killed runs of this home left.

    Ends the instances that they rented, and finds what their launches brought. Prints what could
    not be ended, and returns 1 then.

    Example: stepcast reap
    """
    from profilers import clusters
    from studies.renting import reap_rented
    from warehouse.durable_files import sweep_home
    from warehouse.extras import has_extra
    from warehouse.home import home
    from warehouse.records import StepcastError

    removed = [f"removed {path.relative_to(home())}" for path in sweep_home(home())]
    removed += [f"removed {name}" for name in clusters.reap()]
    if has_extra("dagster") and (home() / "dagster.yaml").exists():
        from assets.resources import free_dead_runs
        from pipelines import dagster_history

        with dagster_history.instance(home()) as instance:
            removed += [f"marked run {run_id} as failed" for run_id in free_dead_runs(instance)]
    rented = reap_rented(home(), tell)
    removed += [f"ended {id_}" for id_ in rented.ended]
    print_text("\n".join(removed) or "nothing was left behind")
    if rented.left:
        raise StepcastError(f"could not be ended: {', '.join(rented.left)}; try again soon")


def support(
    types: Annotated[
        list[str] | None,
        typer.Argument(help="Names, or types of Hugging Face such as bert; left out: all."),
    ] = None,
    form: Form = "table",
) -> None:
    """List networks and types of models: what is answered, or why not.

    `of` is the framework of a network that comes with Stepcast, or hf of a type of model that
    `--dnn hf:TYPE` names. A type is answered where at most 5 % of its work is of operators of
    unknown work, and the rest within 2 % of PyTorch's own count. `layers` says of which config.

    Example: stepcast support resnet50 llama
    """
    import polars as pl

    import networks
    from pipelines.support import share_answered, supported

    figures = ("layers", "seconds", "operators", "uncounted", "deviation")
    rows: list[dict[str, Any]] = [
        {"name": name, "of": framework, "answered": "yes"}
        | {"detail": f"images of {networks.minimum_image_size(name, framework)} px or more"}
        for framework in ("tensorflow", "pytorch")
        for name in networks.names(framework)
    ]
    rows += [
        {"name": each.type, "of": "hf", "answered": each.answer, "detail": each.detail}
        | {name: getattr(each, name) for name in figures}
        for each in supported().values()
    ]
    frame = pl.DataFrame(rows, infer_schema_length=None)
    if types:
        from warehouse.records import BadInput

        wanted = {name.removeprefix("hf:") for name in types}
        if unknown := wanted - set(frame["name"]):
            raise BadInput(
                f"{min(unknown)}: no network, and no type of Hugging Face that was asked about; "
                "`stepcast support` lists all"
            )
        frame = frame.filter(pl.col("name").is_in(wanted))
    print_frame(frame.drop(figures) if form == "table" else frame, form)
    if form == "table" and not types:
        print_text(f"{100 * share_answered():.0f} % of the types that make a model are answered.")


class Part(StrEnum):
    """What a service manager starts one by one."""

    CODE = "code"
    DAEMON = "daemon"
    WEB = "web"


def ui(
    port: Annotated[int, typer.Option(help="Where it listens.")] = 3000,
    address: Annotated[str, typer.Option(help="Address on which it listens.")] = "127.0.0.1",
    only: Annotated[
        Part | None,
        typer.Option(
            help="Start one of its three services alone, for a service manager: code (executes "
            "runs), daemon (queue, schedules, sensors) or web."
        ),
    ] = None,
    code: Annotated[
        str, typer.Option(help="With --only: HOST:PORT of the service code.")
    ] = "127.0.0.1:4266",
) -> None:
    """Start Dagster's web interface; Ctrl-C ends it.

    Anybody who reaches it may do everything: docs/services.md.

    Example: stepcast ui --port 3001

    Example: stepcast ui --only daemon
    """
    from assets.landed import report_landed
    from pipelines import dagster_history
    from profilers.clusters.fleet import VARIABLE, fleet_file, has_fleet
    from warehouse.home import CHECKOUT, home
    from warehouse.records import BadInput

    code_host, _, code_port = code.rpartition(":")
    if not code_host or not code_port.isdecimal():
        raise BadInput(f"--code: expected HOST:PORT, found {code!r}")
    if only in (None, Part.CODE):
        with dagster_history.instance(home()) as instance, suppress(BadInput):
            report_landed(instance, home())
    dagster_history.prepare(home())
    os.environ["STEPCAST_HOME"] = str(home())
    module = ["-m", dagster_history.MODULE, "--working-directory", str(CHECKOUT)]
    listens = ["--host", address, "--port", str(port)]
    if only is None:
        # Its successor, `dg dev`, is a tool for developers, which users need not have.
        quiet = ["-W", "ignore:Function `dev_command` is superseded"]
        command = [*quiet, "-m", "dagster", "dev", *module, *listens]
    elif only is Part.CODE:
        listens = ["--host", address, "--port", code_port]
        command = ["-m", "dagster", "code-server", "start", *module, *listens]
    else:
        workspace = ["-w", str(dagster_history.workspace(home(), code_host, int(code_port)))]
        command = (
            ["-m", "dagster._daemon", "run", *workspace]
            if only is Part.DAEMON
            else ["-m", "dagster_webserver", *workspace, *listens]
        )
    what = "the history" if only is None else f"{only} of the history"
    typer.echo(
        f"{what} in {home()}" + f": http://{address}:{port}" * (only in (None, Part.WEB)), err=True
    )
    if has_fleet():  # its `on_change` hears of failures
        os.environ[VARIABLE] = str(fleet_file().absolute())
    os.chdir(home())  # in the checkout Dagster would warn of the dagster.yaml there
    os.execv(sys.executable, [sys.executable, *command])
