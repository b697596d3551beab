-- Which HTTP/2 flow-control windows did receivers announce, and how many streams were suspended ($dnn, NULL: each)?
-- One row per captured run and direction; windows in bytes (section 3.2.2 of the ICPE'20 paper).
WITH announced AS (
    SELECT
        run_id, direction, arg_min("value", time_us) AS first_window_bytes,
        arg_max("value", time_us) AS last_window_bytes, max("value") AS largest_window_bytes,
        count(*) AS announcements
    FROM raw.http2_frame
    WHERE type = 'SETTINGS' AND "value" IS NOT NULL
        AND sender = CASE direction WHEN 'downlink' THEN 'worker' ELSE 'server' END
    GROUP BY run_id, direction
),
sent AS (
    SELECT
        run_id, direction, count(*) AS streams, count_if(segments > 1) AS suspended,
        max(size_bytes) AS largest_stream_bytes
    FROM raw.stream WHERE operation IS NOT NULL GROUP BY run_id, direction
)
SELECT
    scenario.label, direction, first_window_bytes, last_window_bytes, largest_window_bytes, announcements,
    largest_stream_bytes, streams, suspended, run.backend, run.host_id, run_id
FROM announced
FULL JOIN sent USING (run_id, direction)
JOIN raw.run AS run USING (run_id)
LEFT JOIN report.scenario AS scenario USING (scenario_id)
WHERE $dnn::VARCHAR IS NULL OR scenario.dnn = $dnn
ORDER BY run.backend, scenario.label, direction, run_id;
