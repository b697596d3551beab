"""The table of types that are answered: no answer turns into a refusal."""

import csv
import subprocess
import sys
from collections.abc import Sequence

import pytest

from pipelines.support import Support, share_answered, supported
from tests.exhaustive import exhaustive
from warehouse.home import CHECKOUT

SAMPLE = ("olmoe", "voxtral_encoder", "vilt")
"""Experts, sound, images with words."""


def answered_now(types: Sequence[str]) -> list[Support]:
    command = [sys.executable, str(CHECKOUT / "scripts" / "support.py"), "--print", *types]
    asked = subprocess.run(command, capture_output=True, text=True, check=True, cwd=CHECKOUT)
    return [Support.model_validate(row) for row in csv.DictReader(asked.stdout.splitlines())]


def test_the_table_says_what_counts_as_an_answer() -> None:
    assert Support(type="a", uncounted=0.05, deviation=0.02).is_answered
    for refused in ({"uncounted": 0.051}, {"deviation": 0.021}, {"reason": "why"}):
        assert not Support(type="a", **refused).is_answered
    assert not Support(type="a", model=False).is_answered
    known = supported()
    assert list(known) == sorted(known) and 0 < share_answered() <= 1
    row = known["bert"]
    assert Support.model_validate(dict(zip(Support.model_fields, row.cells(), strict=True))) == row


@pytest.mark.parametrize("types", [SAMPLE, *exhaustive([*supported()])])
def test_no_answer_turns_into_a_refusal(types: Sequence[str]) -> None:
    before = [model_type for model_type in types if supported()[model_type].is_answered]
    assert before
    lost = {row.type: row.reason for row in answered_now(before) if not row.is_answered}
    assert not lost
