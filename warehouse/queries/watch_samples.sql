-- What did each window of some runs ($run_ids, NULL: all) measure?
SELECT run_id, metric, "window", value
FROM raw.sample
WHERE ($run_ids::VARCHAR[] IS NULL OR run_id IN (SELECT unnest($run_ids))) AND "window" IS NOT NULL AND value IS NOT NULL
ORDER BY run_id, "window", metric;
