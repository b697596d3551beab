"""Names that become part of a path."""

import pytest
from pydantic import TypeAdapter, ValidationError

from warehouse.fields import Name, checked_name, nearest_names
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


TYPES = ["emu.avx2.c25", "gpu.h100", "gpu.h200", "m5.large", "p3.2xlarge", "p4d.24xlarge"]


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("p5.48xlarge", "p3.2xlarge"),
        ("m6i.large", "m5.large"),
        ("emu.avx2.c52", "emu.avx2.c25"),
        ("gpu.h300", "gpu.h200"),
        ("gup.h100", "gpu.h100"),
    ],
)
def test_the_nearest_names_are_of_the_same_kind(name: str, first: str) -> None:
    assert nearest_names(name, TYPES)[0] == first
    assert first == "m5.large" or "m5.large" not in nearest_names(name, TYPES)


def test_no_name_of_another_kind_is_near() -> None:
    assert nearest_names("p5.48xlarge", ["m5.large", "emu.server"]) == []
