-- Which fits of Srift are there, newest first? Read on the published copy: it is never locked.
SELECT backend, host_id, parameters FROM fit.fit WHERE system = 'srift' ORDER BY sequence DESC;
