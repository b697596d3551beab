-- Who errs least where all systems of a study ($study NULL: any one) made a forecast, and how much does each cover?
-- Systems of other studies stand on its board where they forecast every scenario that was judged in it, and were
-- judged on the same host.
WITH own AS (
    SELECT
        study, backend, metric, system, subject_kind, subject_id,
        avg(ape_percent) AS ape, avg(noise_floor_percent) AS noise_floor, list(DISTINCT host_id) AS hosts
    FROM report.accuracy
    WHERE ape_percent IS NOT NULL AND NOT host_busy
        AND ($systems::VARCHAR IS NULL OR list_contains(string_split($systems, ','), system))
    GROUP BY ALL
),
subject AS (
    SELECT *, count(*) OVER (PARTITION BY study, backend, metric) AS subjects
    FROM (
        SELECT study, backend, metric, subject_kind, subject_id, flatten(list(hosts)) AS hosts
        FROM own GROUP BY ALL
    )
),
elsewhere AS (
    SELECT
        subject.study, backend, metric, system, subject_kind, subject_id, any_value(subjects) AS subjects,
        avg(ape) AS ape, avg(noise_floor) AS noise_floor
    FROM subject JOIN own USING (backend, metric, subject_kind, subject_id)
    ANTI JOIN own AS there
        ON there.study = subject.study AND there.backend = own.backend
        AND there.metric = own.metric AND there.system = own.system
    WHERE subject_kind = 'scenario' AND own.study <> subject.study
        AND list_has_all(subject.hosts, own.hosts)
    GROUP BY ALL
),
whole AS (
    SELECT study, backend, metric, system FROM elsewhere
    GROUP BY ALL HAVING count(*) = any_value(subjects)
),
verdict AS (
    SELECT * EXCLUDE (hosts) FROM own
    UNION ALL
    SELECT elsewhere.* EXCLUDE (subjects) FROM elsewhere JOIN whole USING (study, backend, metric, system)
),
asked AS (
    SELECT
        study, backend, metric, count(DISTINCT system) AS systems,
        count(DISTINCT subject_id) AS subjects
    FROM verdict GROUP BY ALL
),
common AS (
    SELECT study, backend, metric, subject_id
    FROM verdict JOIN asked USING (study, backend, metric)
    GROUP BY ALL HAVING count(DISTINCT system) = any_value(systems)
)
SELECT
    study, backend, metric, system,
    count(common.subject_id) AS n,
    avg(ape) FILTER (common.subject_id IS NOT NULL) AS mape,
    median(ape) FILTER (common.subject_id IS NOT NULL) AS median_ape,
    max(ape) FILTER (common.subject_id IS NOT NULL) AS max_ape,
    count(*) AS covered,
    100 * count(*) / any_value(subjects) AS covered_percent,
    avg(ape) AS covered_mape,
    avg(noise_floor) AS noise_floor,
    count(noise_floor) AS noise_n
FROM verdict
JOIN asked USING (study, backend, metric)
LEFT JOIN common USING (study, backend, metric, subject_id)
WHERE $study::VARCHAR IS NULL OR study = $study
GROUP BY study, backend, metric, system
ORDER BY study, backend, metric, mape NULLS LAST, covered_mape, system;
