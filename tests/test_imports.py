"""Who may import whom: read from the source of every room, so that lazy imports count too."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipelines.ran import in_interpreter

CHECKOUT = Path(__file__).parents[1]
ROOMS = (
    "assets",
    "benchmarks",
    "fleet",
    "forecasting",
    "models",
    "networks",
    "pipelines",
    "profilers",
    "reports",
    "stepcast",
    "studies",
    "warehouse",
)
_WORDS = ("warehouse.documents", "warehouse.fields", "warehouse.limits", "warehouse.records")
_STUDIES = ("networks", "profilers", "warehouse")
_FORECASTING = (*_STUDIES, "models", "studies")
_RESULTS = (
    "forecasting.decisions.answer",
    "forecasting.evaluation",
    "forecasting.findings",
    "forecasting.results",
    "forecasting.sanity",
    "models.async_sgd.overhead",
    "models.choice",
    "studies.messages",
    "warehouse.durable_files",
    "warehouse.records",
)
_FLEET = (*_FORECASTING, "forecasting")
_ASSETS = (*_FLEET, "fleet", "reports")
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "networks": (
        "warehouse.child_process",
        "warehouse.durable_files",
        "warehouse.extras",
        "warehouse.home",
    ),
    "warehouse": (),
    "profilers": (
        "networks",
        "warehouse.child_process",
        "warehouse.durable_files",
        "warehouse.requirements",
        "warehouse.home",
        *_WORDS,
    ),
    # What nodes are is declared there: how many GPUs, how they are linked, which network.
    "models": ("networks", "profilers.clusters.node_types", "warehouse.requirements", *_WORDS),
    "studies": _STUDIES,
    "forecasting": _FORECASTING,
    "fleet": _FLEET,
    "reports": _RESULTS,
    "assets": _ASSETS,
    # Commands are timed there, too.
    "benchmarks": (*_ASSETS, "pipelines"),
    "pipelines": (*_ASSETS, "assets", "benchmarks"),
    "stepcast": (*_ASSETS, "pipelines"),
}
"""Rooms and modules that a room may import beside itself."""
ONLY_IN = {"duckdb": {"warehouse"}, "dagster": {"assets", "pipelines"}}
"""Outside packages (and those named `<package>_…`) that only these rooms may import."""


def sources(root: Path) -> dict[str, Path]:
    """Return the file of every module of every room under `root`, by dotted name."""
    files = {}
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            files[".".join(parts).removesuffix(".__init__")] = path
    return files


def imports(path: Path, modules: dict[str, Path]) -> Iterator[str]:
    """Yield the dotted name of each module that a file imports, wherever in it.

    `from a import b` is `a.b` where that is one of `modules`; relative imports keep their dots.
    """
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            for alias in node.names:
                name = f"{base}.{alias.name}"
                yield name if name in modules else base


def violations(root: Path) -> list[str]:
    """Return one line for each import that breaks the rules."""
    modules = sources(root)
    return [
        f"{module} imports {target}"
        for module, path in modules.items()
        for target in sorted(set(imports(path, modules)))
        if not allowed(module.partition(".")[0], target)
    ]


def allowed(room: str, target: str) -> bool:
    """Tell whether code in `room` may import the module `target`."""
    top = target.partition(".")[0]
    if top == "":
        return False
    if top in ROOMS:
        return any(f"{target}.".startswith(f"{package}.") for package in (room, *MAY_IMPORT[room]))
    owners = [rooms for name, rooms in ONLY_IN.items() if top == name or top.startswith(f"{name}_")]
    return all(room in rooms for rooms in owners)


def reachable(start: str, modules: dict[str, Path]) -> set[str]:
    """Return every module that importing `start` may import, outside ones by their top name."""
    seen: set[str] = set()
    todo = [start]
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        parent = name.rpartition(".")[0]
        if name in modules:
            todo += [*imports(modules[name], modules), *([parent] if parent else [])]
    return {name if name in modules else name.partition(".")[0] for name in seen}


def test_rooms_import_only_what_they_may() -> None:
    assert violations(CHECKOUT) == []


@pytest.mark.parametrize(
    ("module", "source", "violation"),
    [
        ("networks/a", "import models", "networks.a imports models"),
        ("profilers/a", "from models.x import y", "profilers.a imports models.x"),
        ("models/x/a", "def f():\n    import duckdb", "models.x.a imports duckdb"),
        ("models/a", "from warehouse import landing", "models.a imports warehouse.landing"),
        ("warehouse/a", "from dagster import asset", "warehouse.a imports dagster"),
        ("pipelines/a", "import duckdb", "pipelines.a imports duckdb"),
        ("assets/a", "from pipelines import cli", "assets.a imports pipelines"),
        ("reports/a", "from studies import landed", "reports.a imports studies.landed"),
        ("models/a", "if x:\n    from . import b", "models.a imports ."),
    ],
)
def test_a_forbidden_import_is_found(
    module: str, source: str, violation: str, tmp_path: Path
) -> None:
    files = {
        "warehouse/landing": "",
        "studies/landed": "",
        "models/fine": "from warehouse import records",
    }
    for name, text in (files | {"warehouse/records": "", module: source}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{name}.py").write_text(text)
    assert violations(tmp_path) == [violation]


def test_importing_follows_other_modules(tmp_path: Path) -> None:
    (tmp_path / "warehouse/deep").mkdir(parents=True)
    (tmp_path / "warehouse/__init__.py").write_text("import json.decoder")
    (tmp_path / "warehouse/deep/a.py").write_text("from warehouse import b")
    (tmp_path / "warehouse/b.py").write_text("def f():\n    from duckdb import connect")
    modules = sources(tmp_path)
    assert reachable("warehouse.deep.a", modules) == {
        "warehouse",
        "warehouse.b",
        "warehouse.deep.a",
        "duckdb",
        "json",
    }


def test_warehouse_init_is_empty() -> None:
    assert (CHECKOUT / "warehouse/__init__.py").read_text() == ""


def test_records_need_the_standard_library_and_pydantic_only() -> None:
    needed = reachable("warehouse.records", sources(CHECKOUT))
    ours = {"warehouse", "warehouse.record", "warehouse.records", "warehouse.strategy"}
    assert needed - sys.stdlib_module_names == {*ours, "pydantic"}


def test_landing_needs_no_duckdb() -> None:
    needed = reachable("warehouse.landing", sources(CHECKOUT))
    assert "pyarrow" in needed
    assert "duckdb" not in needed


def test_probes_open_no_database() -> None:
    assert not loaded_by("profilers.clusters, warehouse.landing") & {"duckdb", "dagster"}


def test_definitions_load_no_framework() -> None:
    loaded = loaded_by("pipelines.definitions")
    assert "dagster" in loaded
    assert not loaded & {"tensorflow", "tf_keras", "torch", "statsmodels"}


def loaded_by(modules: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter holds after importing `modules`."""
    code = f"import sys, {modules}; print(*(name for name in sys.modules if '.' not in name))"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return set(ran.stdout.split())


FITS = ("load_or_fit", "read_fits")
"""Functions of `forecasting.fits` that make fits, or load them."""
FITTERS = {"forecasting.forecast", "forecasting.round_forecasts"}


def test_one_way_leads_from_the_history_to_a_forecast() -> None:
    """Whoever wants a forecast asks `forecasting.forecast` or `forecasting.round_forecasts`."""
    fitters = {
        name
        for name, file in sources(CHECKOUT).items()
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "forecasting.fits"
        if any(alias.name in FITS for alias in node.names)
    }
    assert fitters <= FITTERS


def test_every_package_is_listed() -> None:
    listed = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {path.relative_to(CHECKOUT).parent for path in sources(CHECKOUT).values()}
    assert set(listed["packages"]) == {".".join(folder.parts) for folder in folders}
    assert all((CHECKOUT / folder / "__init__.py").exists() for folder in folders)


_EXTRA_MODULES = ("tensorflow", "tf_keras", "dagster", "dagster_webserver", "boto3", "botocore")
_WITHOUT_EXTRAS = f"""
import sys
sys.modules.update(dict.fromkeys({_EXTRA_MODULES}))
from pipelines.cli.main import main
for command in sys.argv[1:]:
    try:
        main(command.split())
    except SystemExit as ended:
        print("exit", ended.code)
"""
"""A module that `sys.modules` holds as None cannot be imported, as if it were not installed."""
_SWEEP = """
systems: [ideal_scaling]
scenarios:
  - {dnn: small_cnn, framework: pytorch, strategy: all_reduce, image_size: 32, batch_size: 12,
     worker: emu.avx512.s15, link_mbps: 200, workers: [2, 4]}
"""
_QUESTION = "--dnn small_cnn --image-size 32 --batch-size 12 --link-mbps 200"
_PREDICT = f"predict {_QUESTION} --framework pytorch --strategy all_reduce"


def without_extras(home: Path, *commands: str) -> tuple[list[str], str]:
    """Run commands where no extra is installed; return what each prints, and all errors."""
    ran = in_interpreter(_WITHOUT_EXTRAS, home, *commands)
    return re.findall(r"(.*?^exit \d+\n)", ran.stdout, re.DOTALL | re.MULTILINE), ran.stderr


def test_the_core_runs_without_extras(small_history: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(small_history, home)
    (home / "small.yaml").write_text(_SWEEP)
    expected = {
        "--help": "recommend",
        "load public/aws_on_demand": "copied 2 runs",
        "sql SELECT(42)": "42",
        "query": "accuracy",
        f"{_PREDICT} --worker emu.avx512.s15 --workers 2": "ideal_scaling",
        f"recommend {_QUESTION} --samples 100000 --capacity emu.avx512.s15=4": "emu.avx512.s15",
        f"sweep {home}/small.yaml": "2 of 2 scenarios are forecast",
        "reap": "nothing was left behind",
    }
    printed, errors = without_extras(home, *expected)
    for out, words in zip(printed, expected.values(), strict=True):
        assert words in out and out.endswith("exit 0\n"), errors[-2000:]


def test_a_command_says_which_extra_it_lacks(tmp_path: Path) -> None:
    printed, errors = without_extras(tmp_path, "run", "ui", "prices collect")
    assert printed == ["exit 1\n"] * 3
    lacking = re.findall(r"pip install 'stepcast\[(\w+)\]'", errors)
    assert lacking == ["tensorflow", "dagster", "aws"] and len(errors.splitlines()) == 3
