-- Which runs may forecasts rest on, and what is each about, the newest first?
-- A scenario says it (canonical); of a run without one, its config.
-- $public: measurements of others, and of own node types, instead of our profiles; $known_by: those that started later are left out.
SELECT run.run_id, probe, CASE WHEN canonical IS NULL THEN config END AS config, canonical, study, repeat, backend, host_id, started_at
FROM visible.run AS run
LEFT JOIN raw.scenario AS scenario ON scenario.run_id = run.run_id
WHERE ($known_by::TIMESTAMPTZ IS NULL OR started_at <= $known_by::TIMESTAMPTZ)
    AND CASE WHEN $public::VARCHAR = 'yes'
        -- Lists of prices are imported too, and measure nothing; traces, logs and reports count where their node type is told.
        THEN backend = 'imported' AND (
            (probe = 'csv' AND run.run_id IN (SELECT run_id FROM raw.external))
            OR (probe IN ('kineto', 'nccl-tests', 'iperf3') AND json_extract_string(config, '$.worker') IS NOT NULL)
        )
        -- Runs that only correct a forecast (`stepcast predict --calibrate`) are seen by no fit.
        ELSE backend <> 'imported' AND NOT starts_with(study, 'calibrate.')
    END
ORDER BY started_at DESC, run.run_id DESC;
