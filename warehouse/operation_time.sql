-- How long did each operation of run $run_id take? Written with the run's timings, unless it brings
-- such statistics itself, so that questions about many runs need not read every timing.
-- An operation that runs several times in a step counts with their sum.
INSERT INTO raw.operation_time BY NAME
WITH of_step AS (
    SELECT operation, step, sum(duration_us) AS us
    FROM raw.timing
    WHERE run_id = $run_id
    GROUP BY operation, step
)
SELECT
    $run_id AS run_id, operation, count(*) AS steps, avg(us) AS mean_us, median(us) AS median_us,
    coalesce(stddev_samp(us), 0) AS sd_us, min(us) AS min_us, quantile_cont(us, 0.95) AS p95_us
FROM of_step
GROUP BY operation
ORDER BY operation;
