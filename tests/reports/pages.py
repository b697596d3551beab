"""What tests read in HTML: cells of tables, headings, elements that were not closed."""

import re
from html.parser import HTMLParser


def cells(html: str) -> list[list[str]]:
    """Return the text of the table cells, row by row, figures left out."""
    html = re.sub(r"<svg.*?</svg>|<wbr>", "", html, flags=re.DOTALL)
    rows = re.findall(r"<tr>(.*?)</tr>", html, flags=re.DOTALL)
    return [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in rows]


def headings(html: str) -> list[str]:
    return re.findall(r"<h[23]>(.*?)</h[23]>", html)


class Balanced(HTMLParser):
    """Keeps the elements that are open."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "wbr":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
