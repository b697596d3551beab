"""Formats by name, and options that only some of them have."""

from pathlib import Path

import pytest

from profilers.readers.contract import ReaderOptions
from profilers.readers.formats import FORMATS, find_format
from warehouse.records import BadInput


def test_a_format_that_is_not_there() -> None:
    with pytest.raises(BadInput, match=r"unknown format 'iperf'; did you mean iperf3\?"):
        find_format("iperf", ReaderOptions())


def test_an_option_of_another_format_is_refused() -> None:
    with pytest.raises(BadInput, match="--world-size is for nccl-tests; kineto has no use for it"):
        find_format("kineto", ReaderOptions(world_size=8))
    with pytest.raises(BadInput, match="--mapping is for csv"):
        find_format("iperf3", ReaderOptions(mapping=Path("x")))


@pytest.mark.parametrize("name", FORMATS)
def test_missing_files_and_folders_are_refused(name: str, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "async_ps_cmdare.csv"):
        with pytest.raises(BadInput, match=str(path)) if name != "csv" else pytest.raises(BadInput):
            list(FORMATS[name].read(path, ReaderOptions()))
