-- What was measured beside its forecast over time, of a node type ($node_type) or of all (NULL)?
-- The newest first. study is NULL of what was merely asked for. Of nodes that are watched (system: watch) their earlier probes are the forecast.
SELECT
    verdict.study, scenario.worker_node_type AS node_type, verdict.system, verdict.label, verdict.metric, verdict.unit,
    verdict.predicted, verdict.measured, verdict.error_percent, verdict.made_at
FROM report.verdict(NULL) AS verdict
LEFT JOIN report.scenario AS scenario USING (scenario_id)
WHERE verdict.error_percent IS NOT NULL
    AND ($node_type::VARCHAR IS NULL OR scenario.worker_node_type = $node_type)
UNION ALL BY NAME
SELECT
    probed.study, judgement.node_type, 'watch' AS system, judgement.metric AS label, judgement.metric, judgement.unit,
    judgement.expected AS predicted, judgement.value AS measured,
    100 * (judgement.expected / nullif(judgement.value, 0) - 1) AS error_percent, probed.started_at AS made_at
FROM raw.judgement AS judgement
JOIN raw.run AS probed ON probed.run_id = judgement.watched
WHERE judgement.expected IS NOT NULL AND judgement.value <> 0
    AND ($node_type::VARCHAR IS NULL OR judgement.node_type = $node_type)
ORDER BY made_at DESC, node_type, system, label, metric, study;
