"""Node types in turn: when a study goes on with the next, and as which."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from forecasting.inputs import inputs_of_study
from profilers.clusters.fleet import Fleet
from profilers.renting.book import REFUSED, UNANSWERED, Entries, Entry, LaunchRefusal, LaunchResult
from studies.node_type_fallback import has_begun, unavailable_node_type, write_fallback_study
from studies.rounds import open_round
from studies.run_settings import with_settings
from studies.study import read_study
from tests.profilers.renting.intents import intent
from tests.synthetic import HOST, landed, needs, write_study

AT = datetime(2026, 11, 26, tzinfo=UTC)
LAUNCH = {"region": "us-east-1", "launch_template": "lt-1"}
STUDY = """
name: mine
probes: {m5.large: {}}
train: [{dnn: small_cnn, image_size: 16, batch_size: 4, worker: m5.large, server: m5.large}]
test:
- {worker: [m5.large, m5.large2], server: c5.large, workers: [1, 2], note: m5.large}
- {mix: 2 m5.large@8 + 1 c5.large@4}
- {worker: c5.large + m5.large}
"""


def refused(token: str, code: str) -> LaunchRefusal:
    return LaunchRefusal(token=token, code=code, reason="", at=AT)


FULL = "InsufficientInstanceCapacity"


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ((intent("1", node_type="a"), refused("1", FULL)), "a"),
        (
            (
                intent("1", node_type="a"),
                refused("1", FULL),
                intent("2", node_type="b"),
                refused("2", FULL),
            ),
            "b",
        ),
        ((intent("1", node_type="a"), refused("1", REFUSED)), None),
        ((intent("1", node_type="a"), refused("1", UNANSWERED)), None),
        (
            (
                intent("1", node_type="a"),
                refused("1", FULL),
                intent("2", node_type="a"),
                LaunchResult(token="2", ids=("i",), at=AT),
            ),
            None,
        ),
    ],
)
def test_a_type_is_lacking_if_the_last_launch_found_none(
    entries: tuple[Entry, ...], expected: str | None
) -> None:
    assert unavailable_node_type(Entries(entries)) == expected


def fleet(**instead: list[str]) -> Fleet:
    types = {name: {"threads": 1} for name in ("a", "b", "c")}
    content = {"node_types": types, "ec2": {**LAUNCH, "instead": instead}}
    return Fleet.model_validate(content)


def test_types_follow_each_other_in_the_order_given() -> None:
    how = fleet(a=["c", "b"]).launch()
    assert [how.following(name) for name in ("a", "c", "b", "d")] == ["c", "b", None, None]
    assert fleet().launch().following("a") is None


@pytest.mark.parametrize(
    ("instead", "why"),
    [
        ({"a": ["d"]}, "'d' is not under node_types"),
        ({"a": ["b"], "b": ["c"]}, "'b' is listed twice"),
        ({"a": ["a"]}, "'a' is listed twice"),
    ],
)
def test_orders_that_mean_nothing_are_refused(instead: dict[str, list[str]], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        fleet(**instead)


def test_a_fleet_without_an_order_is_the_fleet_that_it_was() -> None:
    assert "instead" not in fleet().launch().canonical_json()


def test_nodes_are_of_the_other_type_wherever_they_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("studies.node_type_fallback.read_study", lambda _: None)
    file = tmp_path / "mine.yaml"
    file.write_text(STUDY)
    other = write_fallback_study(file, "m5.large", "x1", tmp_path)
    assert other == tmp_path / "instead/mine.x1.yaml"
    expected = STUDY.replace("name: mine", "name: mine.x1")
    for before, after in (
        ("worker: m5.large, server: m5.large", "worker: x1, server: x1"),
        ("[m5.large, m5.large2]", "[x1, m5.large2]"),
        ("2 m5.large@8", "2 x1@8"),
        ("c5.large + m5.large", "c5.large + x1"),
    ):
        expected = expected.replace(before, after)
    assert yaml.safe_load(other.read_text()) == yaml.safe_load(expected)
    third = write_fallback_study(other, "x1", "x2", tmp_path)
    assert third == tmp_path / "instead/mine.x2.yaml"


def test_a_study_that_has_the_other_type_too_goes_on_with_none(
    study_file: Path, tmp_path: Path
) -> None:
    both = study_file.read_text().replace(
        "worker: emu.native.c25", "worker: [emu.native.c25, emu.avx2.c25]"
    )
    assert both != study_file.read_text()
    study = write_study(tmp_path, both)
    assert write_fallback_study(study, "emu.native.c25", "emu.avx2.c25", tmp_path) is None
    assert list((tmp_path / "instead").iterdir()) == []


def test_a_round_has_begun_with_its_first_run_on_the_type(study_file: Path) -> None:
    study = read_study(study_file)
    asking, (first, *_) = inputs_of_study(study), needs(study)
    (name, *_) = {group.node_type for group in first.nodes}
    before = open_round(study, asking, "emulated", HOST, [])
    after = open_round(
        study, asking, "emulated", HOST, [with_settings(landed(first), first.settings)]
    )
    assert (has_begun(before, name), has_begun(after, name)) == (False, True)
    assert not has_begun(after, "m5.large")
