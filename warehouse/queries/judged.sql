-- Which predictions have been judged, and how did they do?
SELECT * FROM report.accuracy
ORDER BY backend, metric, system, label, scenario_id, host_id, made_at, prediction_id;
