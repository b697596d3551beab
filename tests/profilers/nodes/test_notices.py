"""Interruption notices: of EC2's metadata service, here a server of our own, and of files."""

from pathlib import Path

import pytest

from profilers.nodes.notices import (
    EmulatedNotices,
    InstanceMetadata,
    InterruptionNotice,
    notice_source,
)
from tests.pipelines.runtime.metadata_service import TERMINATE, Service, metadata_service


def test_there_is_no_notice_until_there_is_one() -> None:
    with metadata_service() as (url, service):
        notices = InstanceMetadata(url)
        assert notices.poll() is None
        service.notices[""] = TERMINATE
        assert notices.poll() == InterruptionNotice("terminate", "2026-01-05T18:02:00Z")
    assert set(service.asked) == {"/latest/meta-data/spot/instance-action"}


@pytest.mark.parametrize("answer", ["", "{", "[]", '{"action": "stop"}'])
def test_what_is_no_notice_is_none(answer: str) -> None:
    with metadata_service() as (url, service):
        service.notices[""] = answer
        assert InstanceMetadata(url).poll() is None


def test_a_service_that_does_not_answer_has_no_notice() -> None:
    with Service() as service:
        port = service.server_port
    assert InstanceMetadata(f"http://127.0.0.1:{port}").poll() is None


def test_an_emulated_notice_is_a_file(tmp_path: Path) -> None:
    notices = notice_source(str(tmp_path / "notice.json"))
    assert notices == EmulatedNotices(tmp_path / "notice.json")
    assert notices.poll() is None
    (tmp_path / "notice.json").write_text(TERMINATE)
    assert notices.poll() == InterruptionNotice("terminate", "2026-01-05T18:02:00Z")
