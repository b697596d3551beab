-- What hardware does a node type ($node_type, NULL: each) have, as its provider described it last, and in which regions?
SELECT
    node_type, provider, region, device_count, device_name,
    device_memory_bytes / 1e9 AS device_memory_gb, vcpus, memory_bytes / 1e9 AS memory_gb,
    network, network_gbps, network_peak_gbps, observed_at, source
FROM raw.instance_type
WHERE $node_type::VARCHAR IS NULL OR node_type = $node_type
QUALIFY row_number() OVER (PARTITION BY provider, node_type, region ORDER BY observed_at DESC, run_id) = 1
ORDER BY node_type, provider, region;
