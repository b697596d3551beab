-- What do the papers report of themselves ($paper, NULL: all), and where?
SELECT paper, place, quantity, subject, bound, value, unit FROM catalog.paper_figure
WHERE $paper::VARCHAR IS NULL OR paper = $paper
ORDER BY ALL;
