COMMENT ON COLUMN fit.fit.host_id IS 'Host that its forecasts are about; runs may be of others (raw.run)';
