"""Interruption notices: of EC2's metadata service, here a server of our own, and of files."""

from pathlib import Path

import pytest

from profilers.nodes.notices import poll
from tests.pipelines.runtime.metadata_service import TERMINATE, Service, metadata_service

TAKEN = {"action": "terminate", "time": "2026-01-05T18:02:00Z"}


def test_there_is_no_notice_until_there_is_one(tmp_path: Path) -> None:
    with metadata_service() as (url, service):
        assert poll(url) is None
        service.notices[""] = TERMINATE
        assert poll(url) == TAKEN
    assert set(service.asked) == {"/latest/meta-data/spot/instance-action"}
    file = tmp_path / "notice.json"
    assert poll(str(file)) is None
    file.write_text(TERMINATE)
    assert poll(str(file)) == TAKEN


@pytest.mark.parametrize("answer", ["", "{", "[]", '{"action": "stop"}'])
def test_what_is_no_notice_is_none(answer: str) -> None:
    with metadata_service() as (url, service):
        service.notices[""] = answer
        assert poll(url) is None


def test_a_service_that_does_not_answer_has_no_notice() -> None:
    with Service() as service:
        port = service.server_port
    assert poll(f"http://127.0.0.1:{port}") is None
