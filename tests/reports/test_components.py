"""What a report says of parts that fits did not see, of the reference and of nothing."""

import re
from dataclasses import replace

import pytest

from forecasting.findings.srift import components as found
from reports import srift
from studies.rounds import Round
from tests.reference import REFERENCE, first_round


@pytest.fixture(scope="module")
def reference() -> Round:
    """The first round of the reference study of data-parallel training."""
    return first_round("reference_ddp")


@pytest.mark.exhaustive
def test_passes_and_all_reduces_stand_beside_their_floors(reference: Round) -> None:
    html = srift.components_section(found(reference, REFERENCE))
    assert re.findall(r"<h2>(.*?)</h2>", html) == [
        "Passes that fits did not see",
        "Batch sizes that fits did not see",
        "All-reduces that fits did not see",
    ]
    passes, reduced = html.split("<h2>All-reduces")
    timed = [part.profiles for part in reference.runs_of("torch_compute")]
    assert passes.count("<tr><td>profile ") == timed.count(True)
    assert passes.count("<tr><td>time held-out batches") == timed.count(False)
    assert passes.count("<tr><td>all<") == 2
    for model in ("trees", "α–β", "rated"):
        assert reduced.count(f"<td>{model}</td>") == 4, "two sizes, left out in two ways"
    assert "nan" not in html


def test_a_round_without_probes_has_no_such_section(reference: Round) -> None:
    nothing = found(replace(reference, runs=()), REFERENCE)
    assert nothing is None
    assert srift.components_section(nothing) == ""
