"""Names that become part of a path."""

import pytest
from pydantic import TypeAdapter, ValidationError

from warehouse.names import Name, checked_name
from warehouse.records import BadInput


@pytest.mark.parametrize(
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
