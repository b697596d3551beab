-- What hardware do the papers' node types have, and what did they cost, US dollars per hour?
SELECT
    node_type, provider, device_count, device_name, device_memory_gb, cores, memory_gb, network_gbps,
    network_variable,
    max(usd_per_hour) FILTER (market = 'on_demand') AS on_demand_usd_per_hour,
    max(usd_per_hour) FILTER (market = 'spot') AS spot_usd_per_hour,
    node.source, node.note
FROM catalog.node_type AS node
LEFT JOIN catalog.price USING (provider, node_type)
GROUP BY ALL
ORDER BY provider, node_type;
