"""What a made-up node tells of itself."""

from pipelines.service.contracts import Report


def report(**changes: object) -> Report:
    """Return a report of an idle node of eight cores, 16 GB, and round figures."""
    fields: dict[str, object] = {
        "node_type": "lab.xeon",
        "cores": 8.0,
        "memory_bytes": 16 * 10**9,
        "dense_flops": 8e10,
        "depthwise_flops": 4e9,
        "memory_Bps": 2e10,
        "disk_Bps": 4e8,
        "link_mbps": 1000.0,
    }
    return Report.model_validate({**fields, **changes})
