-- How long did each operation take, by the timings of one run in `timing`? Written with them, unless the
-- run brings such statistics itself, so that questions about many runs need not read every timing. An
-- operation that runs several times in a step counts with their sum.
WITH of_step AS (
    SELECT operation, step, sum(duration_us)::BIGINT AS us
    FROM timing
    GROUP BY operation, step
),
of_operation AS (
    SELECT
        operation, count(*) AS steps, avg(us) AS mean_us, stddev_samp(us) AS sd_us,
        min(us) AS min_us, quantile_cont(us, [0.5, 0.95]) AS quantiles_us
    FROM of_step
    GROUP BY operation
)
SELECT
    operation, steps, mean_us, quantiles_us[1] AS median_us,
    coalesce(sd_us, 0) AS sd_us, min_us, quantiles_us[2] AS p95_us
FROM of_operation
ORDER BY operation
