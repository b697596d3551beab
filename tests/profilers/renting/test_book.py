"""The book: what was written stays, whatever is killed or torn, and two processes share one cap."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profilers.clusters.base import SOURCE
from profilers.renting.book import UNANSWERED, Book, Entry, InstanceEnd, LaunchRefusal, LaunchResult
from profilers.renting.cap import bill
from tests.profilers.renting.intents import AT, intent
from tests.warehouse.conftest import limited
from warehouse.records import BadInput

INTEND = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from profilers.renting.book import Book, LaunchIntent
from profilers.renting.cap import BudgetExceeded, bill, hours_within

book = Book(Path(sys.argv[1]))
sys.stdin.readline()
for number in range(1000):
    def made(entries):
        hours = hours_within(10.0, bill(entries.of("a")), 1, 1.0, 0.25)
        return LaunchIntent(
            token=f"{sys.argv[2]}-{number}", owner="o", account="a", region="r", zone=None,
            node_type="t", market="spot", count=1, usd_per_hour=1.0, hours=hours,
            at=datetime.now(UTC),
        )
    try:
        print(book.intend(made).token, flush=True)
    except BudgetExceeded:
        break
"""


_text = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(['["ended",', '"]'])
_entries = st.one_of(
    st.builds(intent, _text),
    st.builds(lambda token: LaunchResult(token=token, ids=("i-1", "i-2"), at=AT), _text),
    st.builds(lambda text: LaunchRefusal(token=text, code=text, reason=text, at=AT), _text),
    st.builds(lambda text, s: InstanceEnd(id=text, seconds=s, at=AT), _text, st.floats(0, 1e6)),
)


@given(
    entries=st.lists(_entries, min_size=1, max_size=5),
    torn=_entries,
    at=st.floats(0, 1, exclude_max=True),
)
def test_what_is_torn_takes_nothing_else_with_it(
    entries: list[Entry], torn: Entry, at: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    book = Book(tmp_path_factory.mktemp("book") / "rented")
    file = book._path  # noqa: SLF001
    book.write(*entries)
    whole = file.read_bytes()
    book.write(torn)
    line = file.read_bytes()[len(whole) :].rstrip(b"\n")
    file.write_bytes(whole + line[: int(at * len(line))])
    book.write(*entries)
    assert book.read().all == (*entries, *entries)


def test_a_full_disk_leaves_the_book_as_it_was(tmp_path: Path) -> None:
    book = Book(tmp_path / "rented")
    book.write(intent("t0"))
    size = (tmp_path / "rented/book.jsonl").stat().st_size
    with limited(size + 10), pytest.raises(BadInput, match="nothing is rented that is not"):
        book.write(intent("t1"))
    assert [*book.read().intents] == ["t0"]


def started(folder: Path, name: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", INTEND, str(folder), name]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=SOURCE
    )


def test_two_processes_stay_within_one_cap(tmp_path: Path) -> None:
    """A launch of 15 and 10 minutes costs $0.4167 at most: 24 of them fit into $10."""
    book = Book(tmp_path / "rented")
    both = [started(tmp_path / "rented", name) for name in ("one", "two")]
    tokens = [process.communicate("go\n", timeout=60)[0].split() for process in both]
    entries = book.read()
    assert sorted(entries.intents) == sorted(tokens[0] + tokens[1])
    assert bill(entries).worst_usd <= 10
    full = [launch for launch in entries.intents.values() if launch.hours == 0.25]
    # The last one has what is left, if that is enough for the shortest launch.
    assert len(full) in (23, 24)
    assert len(entries.intents) - len(full) <= 1


def test_what_was_written_before_a_kill_is_there(tmp_path: Path) -> None:
    with started(tmp_path / "rented", "one") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        seen = [process.stdout.readline().strip() for _ in range(3)]
        process.kill()
        seen += process.stdout.read().split()
    assert set(seen) <= set(Book(tmp_path / "rented").read().intents)


def test_a_launch_is_answered_once_all_of_it_is_known(tmp_path: Path) -> None:
    book = Book(tmp_path / "rented")
    book.write(intent("t0", count=2), LaunchResult(token="t0", ids=("i-1",), at=AT))
    assert [launch.token for launch in book.read().unanswered] == ["t0"]
    book.write(
        LaunchResult(token="t0", ids=("i-2", "i-1"), at=AT), InstanceEnd(id="i-1", seconds=1, at=AT)
    )
    entries = book.read()
    assert entries.unanswered == ()
    assert entries.launched["t0"].ids == ("i-1", "i-2")
    assert [*entries.living] == ["i-2"]


def test_accounts_are_apart(tmp_path: Path) -> None:
    book = Book(tmp_path / "rented")
    book.write(
        intent("t0"), intent("t1", account="b"), LaunchResult(token="t1", ids=("i-1",), at=AT)
    )
    book.write(LaunchRefusal(token="t0", code=UNANSWERED, reason="", at=AT))
    assert [*book.read().of("b").intents] == ["t1"]
    assert book.read().of("b").refused == {}
    assert bill(book.read().of("c")).worst_usd == 0
