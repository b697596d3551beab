"""Sections of a page behind their headings, and the table of contents that leads to them.

A section is HTML that begins with `<h2>title</h2>`; several may follow one another.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from itertools import groupby

_HEADING = re.compile(r"<h2>(.*?)</h2>", re.DOTALL)
_NOT_IN_IDS = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class Section:
    """What is behind a heading: its title as HTML, an id that no other has, and its group."""

    key: str
    title: str
    body: str
    group: str = ""


def sections(parts: Iterable[str]) -> list[Section]:
    """Return the sections of some HTML, in order; empty parts have none.

    Raises:
        ValueError: a part does not begin with a heading.
    """
    return grouped({"": parts})


def grouped(groups: Mapping[str, Iterable[str]]) -> list[Section]:
    """Return the same of several groups, by what each is called.

    Raises:
        ValueError: a part does not begin with a heading.
    """
    found: list[Section] = []
    taken: set[str] = set()
    for group, title, body in (
        (group, *one)
        for group, parts in groups.items()
        for part in parts
        if part.strip()
        for one in _split(part)
    ):
        name = _NOT_IN_IDS.sub("-", title.lower()).strip("-") or "section"
        key, place = name, 1
        while key in taken:
            place += 1
            key = f"{name}-{place}"
        taken.add(key)
        found.append(Section(key, title, body, group))
    return found


def folded(found: Iterable[Section]) -> str:
    """Return sections that open at their headings; on paper they are open."""
    return "\n".join(
        _named(group)
        + "\n".join(
            f'<details class="section"><summary><h2>{one.title}</h2></summary>'
            f'<div id="{one.key}">{one.body}</div></details>'
            for one in its
        )
        for group, its in groupby(found, lambda one: one.group)
    )


def contents(found: Iterable[Section]) -> str:
    """Return links to sections, as a list for each group."""
    return "".join(
        f"{_named(group)}<ul>"
        + "".join(f'<li><a href="#{one.key}">{one.title}</a></li>' for one in its)
        + "</ul>"
        for group, its in groupby(found, lambda one: one.group)
    )


def _named(group: str) -> str:
    return f'<p class="group">{escape(group)}</p>' if group else ""


def _split(part: str) -> Iterator[tuple[str, str]]:
    before, *rest = _HEADING.split(part)
    if before.strip():
        raise ValueError(f"a section begins with its <h2>, this one with {before.strip()[:40]!r}")
    yield from zip(rest[::2], rest[1::2], strict=True)
