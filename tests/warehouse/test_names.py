import pytest

from warehouse.names import checked_name
"""Names that become part of a path."""

import pytest
from pydantic import TypeAdapter, ValidationError

from warehouse.names import Name, checked_name
from warehouse.records import BadInput


@pytest.mark.parametrize(
    "name", ["demo", "c5.xlarge", "reference_ddp", "2026-11-25", "g++", "a" * 100]
)
def test_plain_names_stay_as_they_are(name: str) -> None:
    assert checked_name(name, "study") == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../a", "-rf", "a b", "a\n", "a\0", "ä", "a" * 101, "$(a)", ".a"]
)
def test_others_are_refused_with_what_they_name(name: str) -> None:
    with pytest.raises(BadInput, match=r"^study .*a name has 1 to 100 letters"):
        checked_name(name, "study")
    "name", ["a", "Small_1", "20261125T140949-train-cbeb9564", "a.b", "x" * 100]
)
def test_names(name: str) -> None:
    assert checked_name(name, "study") == TypeAdapter(Name).validate_python(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a/b",
        "../a",
        "/etc",
        "-rf",
        ".a",
        "a b",
        "a\n",
        "a\0",
        "é",
        "x" * 101,
        "a\\b",
    ],
)
def test_what_would_be_another_path(name: str) -> None:
    with pytest.raises(BadInput, match=r"^study .* cannot be part of a path; use up to"):
        checked_name(name, "study")
    with pytest.raises(ValidationError):
        TypeAdapter(Name).validate_python(name)
