-- Which runs has the fleet made, to profile its node types and to watch them?
SELECT *
FROM raw.run
WHERE study LIKE 'fleet.%' OR study LIKE 'watch.%'
ORDER BY started_at, run_id;
