-- What did each command that rented machines cost ($account, NULL: all), and what may it still cost at most?
-- Prices are those of the launch, or its highest bid: the provider's own bill is not above these.
WITH launch AS (
    SELECT DISTINCT ON (token) token, account, written_at, instances AS asked, usd / instances AS most_usd
    FROM raw.rented WHERE kind = 'intent'
),
found AS (
    SELECT DISTINCT token, instance FROM raw.rented WHERE kind = 'launched'
),
ended AS (
    SELECT instance, max(seconds) AS seconds, max(usd) AS usd FROM raw.rented WHERE kind = 'ended' GROUP BY instance
),
refused AS (
    SELECT token, bool_or(code = 'unanswered') AS given_up FROM raw.rented WHERE kind = 'refused' GROUP BY token
),
counted AS (
    SELECT
        launch.token, count(found.instance) AS known, count(ended.instance) AS over,
        coalesce(sum(ended.seconds), 0) AS seconds, coalesce(sum(ended.usd), 0) AS ended_usd
    FROM launch LEFT JOIN found USING (token) LEFT JOIN ended USING (instance)
    GROUP BY launch.token
)
SELECT
    account, min(written_at) AS since, count(*) AS launches,
    count(*) FILTER (NOT given_up) AS refused, sum(known)::BIGINT AS instances,
    sum(known - over)::BIGINT AS living, sum(seconds) / 3600 AS instance_hours,
    -- What a launch may have brought and nobody found counts in full: as spent, once nobody looks for it any more.
    sum(ended_usd + CASE WHEN given_up THEN greatest(asked - known, 0) * most_usd ELSE 0 END) AS spent_usd,
    sum(most_usd * ((known - over) + CASE WHEN given_up IS NULL THEN greatest(asked - known, 0) ELSE 0 END)) AS open_usd
FROM launch JOIN counted USING (token) LEFT JOIN refused USING (token)
WHERE $account::VARCHAR IS NULL OR account = $account
GROUP BY account
ORDER BY since, account;
