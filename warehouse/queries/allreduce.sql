-- How fast is an all-reduce, by library, ranks and buffer size (on $backend, NULL: each)?
SELECT
    backend, host_id, library, world_size, concurrent, size_bytes,
    1e6 * median(seconds) AS median_us, 1e6 * median(raw_seconds) AS median_raw_us,
    1e-9 * median("bus_bandwidth_Bps") AS "bus_bandwidth_GBps",
    count(*) AS n, count(DISTINCT run_id) AS runs
FROM raw.allreduce JOIN raw.run USING (run_id)
WHERE status = 'ok' AND ($backend::VARCHAR IS NULL OR backend = $backend)
    AND ($library::VARCHAR IS NULL OR library = $library)
GROUP BY backend, host_id, library, world_size, concurrent, size_bytes
ORDER BY ALL;
