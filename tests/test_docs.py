"""What pages say can be done: commands, files and studies are there, and print what is shown."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from forecasting.study_checks import check_forecasts
from profilers.clusters.fleet import Fleet
from scripts import reference_pages
from studies.study import read_study
from tests.test_equations import is_defined
from warehouse.home import CHECKOUT
from warehouse.warehouse import QUERIES

PAGES = sorted([*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md")])
ADDED = CHECKOUT / "docs" / "extend.md"
"""The page that adds files which are not there; `tests/test_extend.py` follows it."""
_YAML = re.compile(r"^ *```yaml\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_FILE = re.compile(
    r"`((?:assets|benchmarks|forecasting|models|networks|pipelines|profilers|reports|scripts|studies"
    r"|tests|warehouse)/[\w./-]+\.(?:py|sql|yaml|html|csv|json))`"
)


def studies() -> list[tuple[str, str]]:
    """Return page and text of each study that is whole, those of `ADDED` left out."""
    whole_studies = []
    for page in PAGES:
        for text in _YAML.findall(page.read_text()):
            content = yaml.safe_load(text)
            if page != ADDED and isinstance(content, dict) and {"name", "test"} <= content.keys():
                whole_studies.append((page.name, text))
    return whole_studies


def test_there_is_a_study_to_follow() -> None:
    assert "studies.md" in {page for page, _ in studies()}


@pytest.mark.parametrize(("page", "text"), studies(), ids=[page for page, _ in studies()])
def test_studies_can_be_measured_and_forecast(page: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(text)
    check_forecasts(read_study(file), file, "loopback")


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_files_that_are_named_are_there(page: Path) -> None:
    if page != ADDED:
        named = set(_FILE.findall(page.read_text()))
        assert not [name for name in named if not (CHECKOUT / name).exists()]


_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]+)(?:#[\w-]*)?\)")
_ANCHOR = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)#([\w-]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
LINKED = [*PAGES, *sorted((CHECKOUT / "lab").glob("*.md"))]
_QUERY = re.compile(r"stepcast query ([a-z]\w*)")


@pytest.mark.parametrize("page", LINKED, ids=[str(page.relative_to(CHECKOUT)) for page in LINKED])
def test_links_lead_somewhere(page: Path) -> None:
    targets = set(_LINK.findall(page.read_text()))
    assert not [target for target in targets if not (page.parent / target).exists()]


def anchors(page: Path) -> set[str]:
    """Return the anchors that a page has, by its headings, as GitHub makes them."""
    headings = _HEADING.findall(page.read_text())
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKED, ids=[str(page.relative_to(CHECKOUT)) for page in LINKED])
def test_links_to_a_heading_find_it(page: Path) -> None:
    links = _ANCHOR.findall(page.read_text())
    lost = [
        f"{file}#{anchor}"
        for file, anchor in links
        if anchor not in anchors(page.parent / file if file else page)
    ]
    assert not lost


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(CHECKOUT)) for page in PAGES])
def test_queries_that_are_named_are_there(page: Path) -> None:
    named = set(_QUERY.findall(page.read_text()))
    assert not [name for name in named if not (QUERIES / f"{name}.sql").exists()]


def test_the_index_leads_to_every_page() -> None:
    docs = CHECKOUT / "docs"
    led = set(_LINK.findall((docs / "README.md").read_text()))
    pages = {page.name for page in docs.glob("*.md")} - {"README.md"}
    assert pages <= led


_FENCED = re.compile(r"^ *```(?P<kind>\w*)\n(?P<text>.*?)^ *```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`(stepcast [a-z][^`]*)`")


def commands(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the words of each command in blocks of a page, and the lines that it shows."""
    words, shown = list[str](), list[str]()
    for block in _FENCED.finditer(text):
        if block["kind"] not in ("", "sh"):
            continue
        for line in block["text"].replace("\\\n", " ").splitlines():
            if line.removeprefix("$ ").startswith("stepcast "):
                if words:
                    yield words, shown
                words, shown = shlex.split(line.removeprefix("$ "), comments=True), []
            elif words:
                shown.append(line)
    if words:
        yield words, shown


@cache
def _commands_there() -> dict[str, Any]:
    return dict(reference_pages.commands())


def unknown(words: list[str]) -> list[str]:
    """Return the command, if there is none of this name, or those of its options that are none."""
    known = _commands_there()
    for name in (" ".join(words[:3]), " ".join(words[:2])):
        if (command := known.get(name)) is not None:
            options = {
                option
                for param in command.params
                for option in (*param.opts, *param.secondary_opts)
            }
            given = [word.partition("=")[0] for word in words if re.match("--[a-z]", word)]
            return [option for option in given if option not in {*options, "--help"}]
    groups = {name.split()[1] for name in known if name.count(" ") > 1}
    return [] if words[1] in groups and len(words) == 2 else [" ".join(words)]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(CHECKOUT)) for page in PAGES])
def test_commands_and_their_options_are_there(page: Path) -> None:
    if page.name == "CHANGELOG.md":  # it names what is gone
        return
    text = page.read_text()
    inline = [found.split() for found in _INLINE.findall(text)]
    assert not [lost for words in inline for lost in unknown([_plain(word) for word in words])]
    assert not [lost for words, _ in commands(text) for lost in unknown(words)]


def _plain(word: str) -> str:
    return word.rstrip(".,:;…)")


def test_fleet_files_of_pages_are_read() -> None:
    texts = [
        text
        for page in PAGES
        for text in _YAML.findall(page.read_text())
        if isinstance(content := yaml.safe_load(text), dict) and {"ssh", "ec2"} & content.keys()
    ]
    assert len(texts) > 1
    for text in texts:
        Fleet.model_validate(yaml.safe_load(text))


GENERATED = {"cli.md"}
PROSE = [
    *(CHECKOUT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(page for page in sorted((CHECKOUT / "docs").rglob("*.md")) if page.name not in GENERATED),
]


@pytest.mark.parametrize("page", PROSE, ids=[str(page.relative_to(CHECKOUT)) for page in PROSE])
def test_lines_of_prose_are_short(page: Path) -> None:
    """Tables and blocks of code are as wide as they are."""
    blocks = page.read_text().split("```")
    lines = [line for block in blocks[::2] for line in block.splitlines()]
    assert not [line for line in lines if len(line) >= 120 and not line.lstrip().startswith("|")]


def test_the_module_map_is_of_folders_that_are_there() -> None:
    _, _, after = (CHECKOUT / "docs" / "architecture.md").read_text().partition("## Module map\n")
    table, _, _ = after.partition("\n\n")
    folders = {folder for row in table.splitlines() for folder in re.findall(r"`([\w/]+/)`", row)}
    assert not [folder for folder in folders if not (CHECKOUT / folder).is_dir()]
    packages = {f"{file.parent.name}/" for file in CHECKOUT.glob("*/__init__.py")}
    assert packages - {"tests/"} <= folders


_STATION = re.compile(r"^\d+\. (.*?)(?=^\d+\. |^$)", re.DOTALL | re.MULTILINE)
_MODULE_OR_NAME = re.compile(r"`(?:(?P<module>[\w/]+\.py)|(?P<name>[A-Za-z_][\w.]*))`")


def stations(command: str) -> list[str]:
    """Return the numbered stations of a command's way through the code."""
    page = (CHECKOUT / "docs" / "architecture.md").read_text()
    _, _, after = page.partition(f"## The way of `stepcast {command}`\n")
    return _STATION.findall(after.partition("\n## ")[0])


def undefined_names(station: str) -> list[str]:
    """Return what a station names that the module named before it does not define."""
    lost, module = [], ""
    for found in _MODULE_OR_NAME.finditer(station):
        if found["module"]:
            module = found["module"]
            if not (CHECKOUT / module).is_file():
                lost.append(module)
        elif not is_defined(CHECKOUT / module, found["name"]):
            lost.append(f"{module}: {found['name']}")
    return lost


@pytest.mark.parametrize("command", ["predict", "run"])
def test_every_station_of_a_command_is_in_the_code(command: str) -> None:
    way = stations(command)
    assert 8 <= len(way) <= 12
    assert all(_MODULE_OR_NAME.search(station) for station in way)
    assert [lost for station in way for lost in undefined_names(station)] == []


def test_a_station_that_is_gone_is_found_out() -> None:
    assert undefined_names("`studies/study.py`: `read_study`, then `read_studies`") == [
        "studies/study.py: read_studies"
    ]
    assert undefined_names("`studies/no_study.py` reads") == ["studies/no_study.py"]
