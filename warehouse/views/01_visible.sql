-- What predictors may see: rows of runs that have no measurement in them, and raw tables as they are.

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

CREATE VIEW visible.operation_shape AS
SELECT * FROM raw.operation_shape SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.operation_shape IS 'raw.operation_shape limited to ok profile runs';

CREATE VIEW visible.operation_time AS
SELECT * FROM raw.operation_time SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.operation_time IS 'raw.operation_time limited to ok profile runs';

CREATE VIEW visible.edge AS SELECT * FROM raw.edge SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.edge IS 'raw.edge limited to ok profile runs';

CREATE VIEW visible.timing AS SELECT * FROM raw.timing SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.timing IS 'raw.timing limited to ok profile runs';

CREATE VIEW visible.layer AS SELECT * FROM raw.layer SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.layer IS 'raw.layer limited to ok profile runs';

CREATE VIEW visible.layer_time AS SELECT * FROM raw.layer_time SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.layer_time IS 'raw.layer_time limited to ok profile runs';

CREATE VIEW visible.compute AS SELECT * FROM raw.compute SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.compute IS 'raw.compute limited to ok profile runs';

CREATE VIEW visible.dnn AS SELECT * FROM raw.dnn SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.dnn IS 'raw.dnn limited to ok profile runs';

CREATE VIEW visible.dnn_node AS SELECT * FROM raw.dnn_node SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.dnn_node IS 'raw.dnn_node limited to ok profile runs';

CREATE VIEW visible.dnn_edge AS SELECT * FROM raw.dnn_edge SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.dnn_edge IS 'raw.dnn_edge limited to ok profile runs';

CREATE VIEW visible.link AS SELECT * FROM raw.link SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.link IS 'raw.link limited to ok profile runs';

CREATE VIEW visible.allreduce AS SELECT * FROM raw.allreduce SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.allreduce IS 'raw.allreduce limited to ok profile runs';

CREATE VIEW visible.stream AS SELECT * FROM raw.stream SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.stream IS 'raw.stream limited to ok profile runs';

CREATE VIEW visible.http2_frame AS
SELECT * FROM raw.http2_frame SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.http2_frame IS 'raw.http2_frame limited to ok profile runs';

CREATE VIEW visible.cluster_node AS
SELECT * FROM raw.cluster_node SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.cluster_node IS 'raw.cluster_node limited to ok profile runs';

CREATE VIEW visible.runtime_event AS
SELECT * FROM raw.runtime_event SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.runtime_event IS 'raw.runtime_event limited to ok profile runs';

CREATE VIEW visible.price AS SELECT * FROM raw.price SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.price IS 'raw.price limited to ok profile runs';

CREATE VIEW visible.external AS SELECT * FROM raw.external SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.external IS 'raw.external limited to ok profile runs';

CREATE VIEW visible.source AS SELECT * FROM raw.source SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.source IS 'raw.source limited to ok profile runs';

CREATE VIEW visible.contention AS SELECT * FROM raw.contention SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.contention IS 'raw.contention limited to ok profile runs';

CREATE VIEW visible.instance_type AS
SELECT * FROM raw.instance_type SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.instance_type IS 'raw.instance_type limited to ok profile runs';

CREATE VIEW visible.judgement AS SELECT * FROM raw.judgement SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.judgement IS 'raw.judgement limited to ok profile runs';

CREATE VIEW visible.rented AS SELECT * FROM raw.rented SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.rented IS 'raw.rented limited to ok profile runs';
