"""What `make release` writes and refuses."""

from datetime import date

import pytest

from scripts import release
from warehouse.home import CHECKOUT

NEXT = "9.1.0"
HERE = {name: (CHECKOUT / name).read_text() for name in release.FILES}


def changed(before: str, after: str) -> list[str]:
    """Return the lines that a file has gained."""
    known = before.splitlines()
    return [line for line in after.splitlines() if line and line not in known]


def test_a_release_changes_versions_and_one_heading() -> None:
    released = release.with_version(HERE, NEXT, date(2027, 1, 2))
    assert {name: changed(HERE[name], released[name]) for name in HERE} == {
        "CHANGELOG.md": ["## 9.1.0 (2027-01-02)"],
        "CITATION.cff": ["version: 9.1.0", "date-released: 2027-01-02"],
        "pyproject.toml": ['version = "9.1.0"'],
    }
    with pytest.raises(release.Refused, match="nothing under Unreleased"):
        release.with_version(released, "9.2.0", date(2027, 1, 3))
    released["CHANGELOG.md"] = HERE["CHANGELOG.md"]
    again = release.with_version(released, "9.2.0", date(2027, 1, 3))
    assert again["CITATION.cff"].count("date-released") == 1


@pytest.mark.parametrize("version", ["9.1", "v9.1.0", "0.0.9", "9.1.0rc1", ""])
def test_what_is_no_next_version_is_refused(version: str) -> None:
    with pytest.raises(release.Refused, match=r"expected a version such as 1\.2\.3, above"):
        release.with_version(HERE, version, date(2027, 1, 2))
