"""What came into a home without a Dagster run, told to Dagster: its pages show what is there."""

from pathlib import Path

import dagster as dg

from warehouse.sql import read_only

_LANDED = Path(__file__).with_name("landed.sql")
_COUNTED = {
    "profiles": "runs",
    "measured": "runs",
    "fits": "fits",
    "predictions": "forecasts",
    "accuracy": "judged forecasts",
}


def report_landed(instance: dg.DagsterInstance, home: Path) -> int:
    """Tell Dagster of assets that it has not heard of since they changed; return how many.

    What others rest on is told first: Dagster calls an asset unsynced that is older.

    Raises:
        BadInput: nothing is published in the home.
    """
    reported = 0
    for study, kind, noun, count, came_at in read_only(home, _LANDED.read_text()).rows():
        key = dg.AssetKey([study, kind, noun])
        last = instance.get_latest_materialization_event(key)
        if last is not None and last.timestamp >= came_at.timestamp():
            continue
        instance.report_runless_asset_event(
            dg.AssetMaterialization(
                key,
                description=f"{count:,} {_COUNTED[kind]} that were loaded, or made by a command.",
                metadata={
                    "dagster/row_count": dg.MetadataValue.int(count),
                    "counts": dg.MetadataValue.text(_COUNTED[kind]),
                    "newest": dg.MetadataValue.timestamp(came_at),
                },
            )
        )
        reported += 1
    return reported
