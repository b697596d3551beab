-- What a home holds of each asset of its studies: how many runs, fits, forecasts or judged forecasts
-- that is, and when the newest of them came, UTC; what others rest on first. Anchors of old homes and visits of the fleet
-- are of no study.
SELECT * FROM (
    SELECT study, if(purpose = 'profile', 'profiles', 'measured') AS kind, probe AS noun,
        count(*) AS n, max(loaded_at) AS came_at
    FROM raw.run JOIN meta.loaded USING (run_id)
    WHERE status = 'ok' AND backend <> 'imported'
    GROUP BY ALL
    UNION ALL
    SELECT study, 'predictions', system, count(*), max(made_at)
    FROM pred.ledger WHERE study IS NOT NULL
    GROUP BY ALL
    UNION ALL
    SELECT study, 'fits', ledger.system, count(DISTINCT fit_id), max(created_at)
    FROM pred.ledger AS ledger JOIN fit.fit USING (fit_id) WHERE study IS NOT NULL
    GROUP BY ALL
    UNION ALL
    SELECT study, 'accuracy', 'table', count(*), max(came_at)
    FROM report.accuracy JOIN (
        SELECT study, max(loaded_at) AS came_at FROM raw.run JOIN meta.loaded USING (run_id)
        WHERE purpose = 'measurement' GROUP BY study
    ) USING (study)
    GROUP BY ALL
)
WHERE study NOT LIKE '%.anchors' AND study NOT LIKE 'fleet.%'
ORDER BY list_position(['profiles', 'fits', 'predictions', 'measured', 'accuracy'], kind), study, noun
