-- What predictors may see: raw rows of ok profile runs. Measurements judge predictions and stay hidden.
-- Columns are those of the raw table of the same name.
CREATE SCHEMA visible;

CREATE VIEW visible.run AS
SELECT * FROM raw.run WHERE purpose = 'profile' AND status = 'ok';
COMMENT ON VIEW visible.run IS 'raw.run limited to ok profile runs';

CREATE VIEW visible.scenario AS SELECT * FROM raw.scenario SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.scenario IS 'raw.scenario limited to ok profile runs';

CREATE VIEW visible.sample AS SELECT * FROM raw.sample SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.sample IS 'raw.sample limited to ok profile runs';

CREATE VIEW visible.step AS SELECT * FROM raw.step SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.step IS 'raw.step limited to ok profile runs';

CREATE VIEW visible.operation AS SELECT * FROM raw.operation SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.operation IS 'raw.operation limited to ok profile runs';

CREATE VIEW visible.edge AS SELECT * FROM raw.edge SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.edge IS 'raw.edge limited to ok profile runs';

CREATE VIEW visible.timing AS SELECT * FROM raw.timing SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.timing IS 'raw.timing limited to ok profile runs';

CREATE VIEW visible.link AS SELECT * FROM raw.link SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.link IS 'raw.link limited to ok profile runs';
