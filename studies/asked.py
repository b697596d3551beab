"""What a study asks of each probe, and how a landed run tells what was asked of it.

A run keeps the settings that its probe was given. Some say what is measured (`SUBJECTS`): where
those differ, rows are missing, or were not to be seen. All others say how long or how often, and
what a run has measured it has, whatever a study says now.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from studies.study import Study
from warehouse.records import Record, Run

if TYPE_CHECKING:
    from studies.parts import Probe

Settings = dict[str, Any]
"""A probe's settings by name, as it takes them."""
KEY = "settings"
"""Where a run's config has them, as JSON."""
SUBJECTS = frozenset({"flows", "sizes_bytes", "concurrent", "batch_sizes", "capture", "most"})
"""Settings that say what is measured, not how precisely."""


def asked(probe: "Probe", study: Study, *, profiles: bool = True) -> Settings:
    """Return what a study asks of a probe, as the probe takes it.

    World sizes and scenarios are left out: each part of a round has its own. Held-out batch sizes
    (no `profiles`) are asked for no more time each than profiles have.
    """
    match probe:
        case "links":
            return _settings(study.links, "contention_s")
        case "contention":
            found = _settings(study.links)
            return found | {"seconds": found.pop("contention_s")}
        case "allreduce":
            return _settings(study.allreduce, "world_sizes")
        case "tf_trace":
            return _settings(study.profile)
        case "tf_operations":
            return _settings(study.profile, "capture")
        case "torch_operations":
            steps = _settings(study.profile)
            return {"timed_steps": steps["traced_steps"], "untimed_steps": steps["untraced_steps"]}
        case "torch_memory":
            return {"most": _settings(study.compute)["largest_up_to"]}
        case "torch_compute":
            passes = _settings(study.compute, "held_out", "slowdown_trials", "largest_up_to")
            return passes if profiles else passes | _held_out(study)
        case "slowdown":
            return {"trials": _settings(study.compute)["slowdown_trials"]}
        case "torch_throughput":
            return _settings(study.iterate)
        case "tf_throughput" | "tf_sync":
            return _settings(study.measure)


def noted(run: Run, settings: Settings) -> Run:
    """Return a run that tells what was asked of its probe."""
    return run.model_copy(update={"config": {**run.config, KEY: json.dumps(settings)}})


def differences(run: Run, settings: Settings) -> dict[str, str] | None:
    """Return, by setting, what a run was asked for and what is asked now, where they differ.

    None where it does not tell, as runs that landed before they kept their settings.
    """
    text = run.config.get(KEY)
    if not isinstance(text, str):
        return None
    then: Mapping[str, object] = json.loads(text)
    both = {name: (_in_order(then.get(name)), _in_order(now)) for name, now in settings.items()}
    return {
        name: f"{name} {json.dumps(before)}, not {json.dumps(now)}"
        for name, (before, now) in both.items()
        if before != now
    }


def _settings(section: Record | None, *without: str) -> Settings:
    """Return what a section of a study says, as a probe takes it."""
    assert section is not None  # the study was refused otherwise
    return {name: value for name, value in section if name not in without}


def _held_out(study: Study) -> Settings:
    assert study.compute is not None
    sizes, most_s = study.compute.held_out, study.compute.most_s
    share = len(sizes) / len(study.compute.batch_sizes)
    return {"batch_sizes": sizes, "most_s": most_s and share * most_s}


def _in_order(value: object) -> object:
    """Return a setting in one way, however it was written: the order of a list says nothing."""
    return sorted(set(value)) if isinstance(value, list | tuple) else value
