-- What did each fit forecast, by which versions of the code, and has it merely been asked for?
SELECT
    prediction_id, system, fit_id, subject_id, value, low, high, study IS NULL AS merely_asked, price_snapshot,
    list_prepend(code_version, coalesce(remade.versions, [])) AS made_by
FROM pred.ledger
LEFT JOIN (
    SELECT key AS prediction_id, list(code_version ORDER BY code_version) AS versions
    FROM meta.remade GROUP BY key
) AS remade USING (prediction_id)
ORDER BY system, fit_id, subject_id, prediction_id;
