"""A study to run has to be possible here; one to look at does not."""

from pathlib import Path

import pytest

from forecasting.study_checks import load_study, load_unchecked
from profilers.steady import host
from warehouse.records import BadInput

STUDY = """
name: looked_at
backend: emulated
systems: [log_linear]
probes:
  torch_throughput: {}
train:
  - {dnn: [small_cnn, alexnet], framework: pytorch, strategy: all_reduce, image_size: 64,
     batch_size: 4, worker: emu.avx512.s15, link_mbps: 500, workers: 1}
test:
  - {dnn: resnet18, framework: pytorch, strategy: all_reduce, image_size: 64,
     batch_size: 4, worker: emu.avx512.s15, link_mbps: 500, workers: 1}
"""


def test_what_ran_elsewhere_is_shown_on_a_processor_that_could_not_run_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "looked_at.yaml"
    file.write_text(STUDY)
    monkeypatch.setattr(host, "hardware", lambda: {"instruction_sets": "SSE41"})
    monkeypatch.setattr(
        "forecasting.study_checks.chosen_backend", lambda wanted: (wanted, "asked for")
    )
    with pytest.raises(BadInput, match=r"looked_at.yaml: .* needs AVX512_CORE"):
        load_study(file, None)
    found = load_unchecked(file, None)
    assert (found.study.name, found.backend) == ("looked_at", "emulated")
