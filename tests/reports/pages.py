"""What tests read in HTML: cells of tables, headings, elements that were not closed."""

import re
from html.parser import HTMLParser


def cells(html: str) -> list[list[str]]:
    """Return the text of the table cells, row by row, figures left out."""
    html = re.sub(r"<svg.*?</svg>|<wbr>", "", html, flags=re.DOTALL)
    rows = re.findall(r"<tr>(.*?)</tr>", html, flags=re.DOTALL)
    return [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in rows]


def rows_of(text: str) -> dict[tuple[str, ...], list[str]]:
    """Return the rows of the tables of a page by heading, study, system and split.

    Tables without systems have rows by their first column.
    """
    rows: dict[tuple[str, ...], list[str]] = {}
    heading = study = ""
    names: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("## "):
            heading, study, names = line.removeprefix("## "), "", []
        elif line.startswith("### "):
            study, names = line.removeprefix("### "), []
        elif line.startswith("| ") and not names:
            names = cells
        elif line.startswith("| "):
            last = names.index("system") if "system" in names else 0
            rows[heading, study, *cells[: last + 1]] = cells[last + 1 :]
    return rows


def headings(html: str) -> list[str]:
    return re.findall(r"<h[23]>(.*?)</h[23]>", html)


NO_CLOSING = {"meta", "br", "img", "link", "wbr"}


class Page(HTMLParser):
    """Keeps the attributes of every element, the text, and which elements are open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.attributes: list[tuple[str, str, str]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in NO_CLOSING:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
