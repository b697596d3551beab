-- Who decides best what to rent: regret, missed deadlines, blown budgets of systems and rules ($study, $seed NULL: all)?
SELECT
    chooser, late, minimize, count(*) AS questions,
    count(*) FILTER (choice IS NULL) AS declined,
    count(*) FILTER (missed_deadline) AS missed,
    count(*) FILTER (blown_budget) AS blown,
    count(*) FILTER (regret_percent < 1e-6) AS best,
    round(avg(regret_percent), 1) AS mean_regret_percent,
    round(quantile_cont(regret_percent, 0.9), 1) AS p90_regret_percent,
    framework, strategy
FROM report.decision
WHERE ($study::VARCHAR IS NULL OR study = $study) AND ($seed::BIGINT IS NULL OR seed = $seed)
GROUP BY ALL
ORDER BY framework, strategy, minimize, late NULLS FIRST, missed + blown + declined, mean_regret_percent, chooser;
