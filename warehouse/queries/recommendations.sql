-- What has been recommended, for which job, at whose prices?
SELECT
    made_at, system, backend, job, objective, constraints, choice, alternatives,
    recommendation.price_snapshot, max(observed_at) AS newest_price, fit_ids, code_version,
    recommendation_id
FROM pred.recommendation AS recommendation
LEFT JOIN pred.price_snapshot AS price USING (price_snapshot)
WHERE $system::VARCHAR IS NULL OR system = $system
GROUP BY ALL
ORDER BY made_at, recommendation_id;
