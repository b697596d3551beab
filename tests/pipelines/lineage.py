"""The assets of every committed study and what each is made from, as plain data.

After a change that was wanted: `python -m tests.pipelines.lineage --write`, and look at the diff.
"""

import json
import sys
from pathlib import Path

from dagster import AssetKey, Definitions

LINEAGE = Path(__file__).with_name("lineage.json")
"""What it was when somebody looked at it last."""
Lineage = dict[str, dict[str, list[str]]]


def lineage(defs: Definitions) -> Lineage:
    """Return, by study and asset, the assets of that study that an asset depends on."""
    graph = defs.resolve_asset_graph()
    by_study: Lineage = {}
    for key in sorted(graph.get_all_asset_keys()):
        study, asset = parts(key)
        upstream = map(parts, sorted(graph.get(key).parent_keys))
        by_study.setdefault(study, {})[asset] = [
            other if of == study else f"{of}/{other}" for of, other in upstream
        ]
    return by_study


def parts(key: AssetKey) -> tuple[str, str]:
    """Return the study of an asset, and what it is called there: group/noun."""
    study, *rest = key.path
    return study, "/".join(rest)


def read() -> Lineage:
    """Return the lineage as it was."""
    by_study: Lineage = json.loads(LINEAGE.read_text())
    return by_study


def write(by_study: Lineage) -> None:
    """Write the lineage, an asset a line."""
    studies = (
        f" {json.dumps(study)}: {{\n{_lines(assets)}\n }}" for study, assets in by_study.items()
    )
    LINEAGE.write_text("{\n" + ",\n".join(studies) + "\n}\n")


def _lines(assets: dict[str, list[str]]) -> str:
    return ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(upstream)}" for name, upstream in assets.items()
    )


if __name__ == "__main__":
    from pipelines.execution import resources
    from pipelines.lineage import all_definitions, study_files

    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.pipelines.lineage --write")
    write(lineage(all_definitions(resources(), *study_files())))
