"""`python -m tests.fuzz TARGET|all`: mutated files for every reader of foreign bytes.

An input is named by target, seed and number: `python -m tests.fuzz kineto --seed 0 --input 24`. It
ends in a result or in `BadInput`. Another exception, 3 s of processor time (10 s of YAML and of
landing folders), 768 MiB, or a process that dies is a finding. It is made smaller and kept in
build/fuzz with its traceback: `python -m tests.fuzz kineto --file build/fuzz/FILE`.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from tests.fuzz.campaign import Report, memory_folder, reproduce, run
from tests.fuzz.child import make
from tests.fuzz.targets import TARGETS, named


def main(
    target: Annotated[str, typer.Argument(help=f"all, or one of {', '.join(TARGETS)}")],
    inputs: Annotated[int, typer.Option(min=1, help="how many, of each target")] = 10_000,
    seed: Annotated[int, typer.Option(help="other seeds make other inputs")] = 0,
    first: Annotated[int, typer.Option(min=0, help="number of the first input")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="processes at once")] = 1,
    to: Annotated[Path | None, typer.Option("--json", help="where the figures go")] = None,
    findings: Annotated[Path, typer.Option(help="where findings go")] = Path("build/fuzz"),
    number: Annotated[int | None, typer.Option("--input", help="take only this one")] = None,
    file: Annotated[Path | None, typer.Option(help="take only this file")] = None,
) -> None:
    """Give mutated files to whatever reads foreign bytes; exit 1 if anything is found."""
    names = list(TARGETS) if target == "all" else [target]
    if number is not None or file is not None:
        _take(target, file.read_bytes() if file else make(named(target), target, seed, number or 0))
        return
    reports = []
    for name in names:
        report = run(name, inputs, seed, workers, first)
        reports.append(report)
        _write(report, findings)
        typer.echo(line(report))
        for case in report.found.values():
            typer.echo(
                f"  {case.finding.kind} in {case.finding.place}: {case.finding.message:.100}"
            )
            typer.echo(f"    {reproduce(name, seed, case.number)}")
        if to is not None:
            to.write_text(json.dumps([report.to_dict() for report in reports], indent=1) + "\n")
    sys.exit(any(report.found for report in reports))


def line(report: Report) -> str:
    """Return a target's figures, in one line."""
    return (
        f"{report.target}: {report.inputs:,} inputs ({report.accepted:,} accepted) in "
        f"{report.seconds:.1f} s (processor {report.cpu_s:.1f}), {report.inputs_per_s:,.0f}/s, "
        f"peak {report.peak_mb:.0f} MB "
        f"(before {report.before_mb:.0f}), slowest {report.slowest_ms:.0f} ms "
        f"(input {report.slowest_input}), {len(report.found)} findings"
    )


def _take(name: str, content: bytes) -> None:
    """Take one input without limits, so that what it raises is seen."""
    target = named(name)
    with memory_folder() as folder:
        path = folder / target.file_name
        path.write_bytes(content)
        kept = Path(tempfile.mkdtemp()) / target.file_name
        kept.write_bytes(content)
        typer.echo(f"{len(content):,} bytes, a copy is {kept}")
        try:
            typer.echo(f"accepted: {target.take(path)}")
        except target.refusals as error:
            typer.echo(f"refused: {error}")


def _write(report: Report, folder: Path) -> None:
    for case in report.found.values():
        place = case.finding.place.replace("/", ".").replace(":", "-")
        stem = f"{report.target}-{case.finding.kind}-{place}".replace(" ", "_")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{stem}.input").write_bytes(case.content)
        how = reproduce(report.target, report.seed, case.number)
        (folder / f"{stem}.txt").write_text(f"{how}\n{case.finding.message}\n{case.finding.trace}")


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    app.command()(main)
    app()
