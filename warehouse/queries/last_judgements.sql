-- What did the last watch make of each node type: its largest change, and was that an alarm?
-- spread_percent: by how much machines of a rented type differ.
WITH newest AS (
    SELECT arg_max(run_id, (started_at, run_id)) AS run_id
    FROM raw.run
    WHERE probe = 'drift'
    GROUP BY study, backend, host_id
),
last AS (
    SELECT
        judgement.*, run.started_at, run.backend, run.host_id,
        (run.config ->> ('spread_percent_' || metric))::DOUBLE AS spread_percent,
        (coalesce(confirmed, false)::INTEGER, alarm::INTEGER, coalesce(abs(robust_z), -1)) AS rank_of
    FROM newest JOIN raw.run AS run USING (run_id) JOIN raw.judgement AS judgement USING (run_id)
)
SELECT
    node_type, backend, host_id, arg_max(metric, rank_of) AS metric, arg_max(change_percent, rank_of) AS change_percent,
    arg_max(outcome, rank_of) AS outcome, bool_or(alarm) AS alarm, bool_or(coalesce(confirmed, false)) AS confirmed,
    any_value(started_at) AS started_at, arg_max(spread_percent, rank_of) AS spread_percent
FROM last
GROUP BY node_type, backend, host_id
ORDER BY ALL;
