-- Which system errs least, how far from what its fit saw, and how close is that to the noise floor?
SELECT * FROM report.leaderboard ORDER BY metric, backend, split, mape, system;
