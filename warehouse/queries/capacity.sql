-- Which launches did a provider refuse, where and why, the newest first ($node_type, NULL: all)?
SELECT DISTINCT
    refused.written_at AS refused_at, launch.node_type, launch.market, launch.region, launch.zone, launch.instances,
    refused.code, refused.reason
FROM raw.rented AS refused
JOIN raw.rented AS launch ON launch.token = refused.token AND launch.kind = 'intent'
WHERE refused.kind = 'refused' AND refused.code != 'unanswered'
    AND ($node_type::VARCHAR IS NULL OR launch.node_type = $node_type)
ORDER BY refused_at DESC, launch.node_type, launch.zone;
