"""The page in a real browser: ask, sort, open, share; a wrong token, a dead server, a phone."""

import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from models.gpu_step import scenario_steps
from pipelines.service.app import service
from pipelines.service.checker import Checker
from pipelines.service.collector import Collector
from pipelines.service.engine import Engine
from reports.html import ASK_FILES, ask_page, page, section
from tests.models.gpu_step.public import made_up_steps
from tests.pipelines.ran import stepcast
from tests.pipelines.service.test_server import serving
from warehouse.history import PublishedHistory

TOKEN = "a-token-of-tests"
QUESTION = "?dnn=small_cnn&image_size=64&batch_size=64&amount=1+million&max_hours=24"
OPTIONS = ("--dnn", "small_cnn", "--image-size", "64", "--batch-size", "64", "--samples", "1000000")
LIMITS = ("--max-hours", "24")
SAME = ("question", "coverage", "choice", "alternatives", "candidates", "front", "measurements")
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def folder(public_history: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a home with public measurements and prices, and a fit to them."""
    home = Path(shutil.copytree(public_history, tmp_path_factory.mktemp("browser") / "home"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEPCAST_HOME", str(home))
        patch.setattr(scenario_steps, "gpu_steps", made_up_steps)
        sent = home / "sent.html"
        sent.symlink_to("page.html")
        answer = stepcast("recommend", *OPTIONS, *LIMITS, "--json", "--html", str(sent))
        assert sent.is_symlink(), "links are followed"
        (home / "answer.json").write_text(answer.printed)
        yield home


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """Return where the service is."""
    checker = Checker(None, 1, ["true"])
    app = service(Engine(PublishedHistory(folder)), Collector(), checker, TOKEN, allows_sql=True)
    with serving(app) as port:
        yield f"http://127.0.0.1:{port}/"
    checker.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield started
        started.close()


Opened = Callable[..., Page]


@pytest.fixture
def opened(browser: Browser, address: str, request: pytest.FixtureRequest) -> Iterator[Opened]:
    """Return what opens a page; at the end it has asked nobody else, and no error was logged.

    The browser itself logs a status of 401, which a test has that gives a wrong token.
    """
    faults: list[str] = []
    contexts = []
    page_asks_for_token = request.node.name == "test_a_wrong_token_is_asked_for_again"

    def open_page(path: str = "", *, token: str | None = TOKEN, width: int = 1280) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900})
        contexts.append(context)
        if token is not None:
            context.add_init_script(f"sessionStorage.setItem('stepcast-token', '{token}')")
        made = context.new_page()
        made.on("pageerror", lambda error: faults.append(str(error)))
        made.on("console", lambda told: faults.extend([told.text] * (told.type == "error")))
        made.on("request", lambda asked: faults.extend([asked.url] * (not is_ours(asked.url))))
        made.goto(path if "://" in path else address + path)
        return made

    def is_ours(url: str) -> bool:
        return url.startswith((address, "data:", "blob:", "file:"))

    yield open_page
    for context in contexts:
        context.close()
    assert [fault for fault in faults if not (page_asks_for_token and "401" in fault)] == []


def answered(page: Page) -> Page:
    expect(page.locator("#ways tbody tr").first).to_be_visible(timeout=60_000)
    return page


def test_a_question_is_asked_sorted_opened_and_shared(folder: Path, opened: Opened) -> None:
    page = opened(width=1440)
    page.get_by_label("Network", exact=False).first.fill("small_cnn")
    page.get_by_label("Image size, px").fill("64")
    page.get_by_label("Batch per GPU").fill("64")
    page.get_by_label("How much").fill("1 million")
    page.get_by_label("Deadline, hours").fill("24")
    page.get_by_role("button", name="Ask", exact=True).click()
    answered(page)

    choice = json.loads((folder / "answer.json").read_text())["choice"]
    headline = page.locator("h1").inner_text()
    assert choice["node_type"] in headline and _dollars(choice["cost_usd"]["value"]) in headline

    page.get_by_role("button", name="hours", exact=True).click()
    hours = [
        float(text.split()[0]) for text in page.locator('[data-label="hours"]').all_inner_texts()
    ]
    assert hours == sorted(hours) and len(hours) > 10
    page.locator(".opens").first.click()
    expect(page.get_by_role("heading", name="Where a step goes")).to_be_visible()
    expect(page.get_by_role("heading", name="Measure it")).to_be_visible()

    again = answered(opened(page.url))
    assert again.locator("h1").inner_text() == headline
    assert again.locator(".opens").first.get_attribute("aria-expanded") == "true"
    assert TOKEN not in page.url


def _dollars(usd: float) -> str:
    return f"${usd:,.0f}" if usd >= 100 else f"${usd:.{4 if usd < 0.1 else 2}f}"


def test_twenty_readers_have_the_answer_of_the_command_line(folder: Path, address: str) -> None:
    told = json.loads((folder / "answer.json").read_text())
    asked = {"dnn": "small_cnn", "image_size": 64, "batch_size": 64, "samples": 10**6}

    def read(_: int) -> tuple[int, dict[str, Any]]:
        page = httpx.get(address)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        body = asked | {"max_hours": 24}
        url = f"{address}v1/recommendations"
        answer = httpx.post(url, json=body, headers=headers, timeout=120)
        return page.status_code + answer.status_code, answer.json()

    with ThreadPoolExecutor(20) as pool:
        for codes, answer in pool.map(read, range(20)):
            assert codes == 400
            assert {name: answer[name] for name in SAME} == {name: told[name] for name in SAME}


def test_keys_alone_reach_an_answer(opened: Opened) -> None:
    page = opened()
    page.get_by_label("Network", exact=False).first.focus()
    page.keyboard.type("small_cnn")
    page.get_by_label("How much").focus()
    page.keyboard.type("100k")
    page.keyboard.press("Enter")
    answered(page).locator(".opens").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".under:not([hidden]) .panel").first).to_be_visible()


def test_three_rows_are_compared(opened: Opened) -> None:
    page = answered(opened(QUESTION))
    for place in range(3):
        page.locator(".pick input").nth(place).check()
    assert page.locator(".compare thead th").count() == 3


def test_a_wrong_token_is_asked_for_again(opened: Opened) -> None:
    page = opened(token="not-the-token-here")
    expect(page.get_by_text("does not know this token")).to_be_visible()
    page.locator("#token").fill(TOKEN)
    page.keyboard.press("Enter")
    expect(page.locator("#networks option").first).to_be_attached()
    assert page.evaluate("sessionStorage.getItem('stepcast-token')") == TOKEN


def test_a_dead_server_is_told(folder: Path, browser: Browser) -> None:
    with serving(
        service(Engine(PublishedHistory(folder)), Collector(), Checker(None, 1, ["true"]), None)
    ) as port:
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{port}/{QUESTION}")
        answered(page)
        page.context.close()
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{port}/")
        expect(page.locator("#networks option").first).to_be_attached()
    page.get_by_label("Network", exact=False).first.fill("small_cnn")
    page.get_by_label("How much").fill("1000")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("The service does not answer")
    page.context.close()


def test_what_is_wrong_is_told_in_words(opened: Opened) -> None:
    page = opened("?dnn=no_such_network&amount=1000&batch_size=8")
    expect(page.get_by_role("alert")).to_contain_text("no_such_network")
    page = opened("?dnn=small_cnn&amount=some&batch_size=8")
    expect(page.get_by_role("alert")).to_contain_text("How long is the job?")


@pytest.mark.parametrize("width", [390, 760, 1280, 2560])
def test_no_column_is_cut(width: int, opened: Opened) -> None:
    page = answered(opened(f"{QUESTION}&open=", width=width))
    page.locator(".opens").first.click()
    expect(page.locator(".under:not([hidden]) .panel").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for cell in page.locator("#ways td:visible").all()[:60]:
        box = cell.bounding_box()
        assert box is None or box["x"] + box["width"] <= width


@pytest.mark.parametrize("path", ["", QUESTION, "?view=coverage", "?view=history"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(path: str, scheme: str, opened: Opened) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = opened(path)
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    if path == QUESTION:
        answered(page).locator(".opens").first.click()
        expect(page.locator(".under:not([hidden]) .panel").first).to_be_visible()
    elif path:
        expect(page.locator("main:visible select").first).to_be_visible(timeout=60_000)
    found = Axe().run(page).response["violations"]
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    assert [(each["id"], each["nodes"][0]["html"][:200]) for each in serious] == []


def test_cells_of_coverage_have_their_cases(opened: Opened) -> None:
    page = opened("?view=coverage")
    cell = page.locator(".heat td button").first
    expect(cell).to_be_visible(timeout=60_000)
    n = int(cell.locator("small").inner_text().removeprefix("n = "))
    cell.click()
    expect(page.locator("#coverage .wide").last.locator("tbody tr")).to_have_count(n)


def test_the_history_is_asked_by_its_queries_and_by_sql(opened: Opened) -> None:
    page = opened("?view=history")
    page.get_by_label("Query").select_option("runs")
    page.get_by_role("button", name="Run", exact=True).first.click()
    expect(page.locator("#history tbody tr").first).to_be_visible()
    page.get_by_label("SQL").fill("SELECT 6 * 7 AS answer")
    page.get_by_role("button", name="Run", exact=True).last.click()
    expect(page.locator("#history tbody td")).to_have_text(["42"], timeout=30_000)


def test_a_file_to_send_says_the_same_and_loads_nothing(folder: Path, opened: Opened) -> None:
    page = answered(opened((folder / "sent.html").as_uri()))
    choice = json.loads((folder / "answer.json").read_text())["choice"]
    assert choice["node_type"] in page.locator("h1").inner_text()
    page.locator(".chosen .opens").click()
    expect(page.get_by_role("heading", name="Where a step goes")).to_be_visible()


def test_tables_of_a_report_sort_and_its_sections_open(tmp_path: Path, opened: Opened) -> None:
    rows = "<table><thead><tr><th class=n>n</th></tr></thead><tbody>"
    rows += "".join(f"<tr><td class=n>{n}</td></tr>" for n in (2, 10, 1)) + "</tbody></table>"
    file = tmp_path / "report.html"
    file.write_text(page("a report", "<h1>A report</h1>", {"": [section("Rows", rows)]}))
    report = opened(f"{file.as_uri()}#section-1-1")
    report.get_by_role("button", name="n", exact=True).click()
    assert report.locator("tbody td").all_inner_texts() == ["10", "2", "1"]


def test_the_page_is_light() -> None:
    sizes = sum(path.stat().st_size for path, _ in ASK_FILES.values()) + len(ask_page())
    assert sizes <= 600_000
    script, _ = ASK_FILES["ask.js"]
    assert len(script.read_text().splitlines()) <= 900
