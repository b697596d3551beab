-- DNNs: their graphs, their layers, and how long they compute.
CREATE TABLE raw.layer (
    run_id VARCHAR NOT NULL,
    layer INTEGER NOT NULL,
    name VARCHAR NOT NULL,
    type VARCHAR NOT NULL,
    parameter_count BIGINT NOT NULL,
    gradient_bytes BIGINT NOT NULL
);
COMMENT ON TABLE raw.layer IS 'Layers of the trained DNN, one row per layer in forward order';
COMMENT ON COLUMN raw.layer.run_id IS 'The run';
COMMENT ON COLUMN raw.layer.layer IS 'Index of the layer, from 0';
COMMENT ON COLUMN raw.layer.name IS 'Name the framework gives the layer';
COMMENT ON COLUMN raw.layer.type IS 'Kind of layer, for example Conv2d';
COMMENT ON COLUMN raw.layer.parameter_count IS 'Number of trained parameters';
COMMENT ON COLUMN raw.layer.gradient_bytes IS 'Size of its gradient, bytes';

CREATE TABLE raw.layer_time (
    run_id VARCHAR NOT NULL,
    batch_size INTEGER NOT NULL,
    trial SMALLINT NOT NULL,
    layer INTEGER NOT NULL,
    forward_us DOUBLE CHECK (isfinite(forward_us)),
    backward_us DOUBLE CHECK (isfinite(backward_us)),
    gradient_ready DOUBLE CHECK (gradient_ready BETWEEN 0 AND 1)
);
COMMENT ON TABLE raw.layer_time IS 'How long each layer computed, one row per batch size, trial and layer';
COMMENT ON COLUMN raw.layer_time.run_id IS 'The run';
COMMENT ON COLUMN raw.layer_time.batch_size IS 'Examples per step and device';
COMMENT ON COLUMN raw.layer_time.trial IS 'Repetition of the same measurement';
COMMENT ON COLUMN raw.layer_time.layer IS 'Index of the layer';
COMMENT ON COLUMN raw.layer_time.forward_us IS 'Forward computation, microseconds; NULL: not measured';
COMMENT ON COLUMN raw.layer_time.backward_us IS 'Backward computation, microseconds; NULL: not measured';
COMMENT ON COLUMN raw.layer_time.gradient_ready IS 'When its gradient is there, part of the backward pass, 0 to 1; NULL: it has none';

CREATE TABLE raw.compute (
    run_id VARCHAR NOT NULL,
    batch_size INTEGER NOT NULL,
    trial SMALLINT NOT NULL,
    rank SMALLINT NOT NULL,
    forward_s DOUBLE NOT NULL CHECK (isfinite(forward_s)),
    backward_s DOUBLE NOT NULL CHECK (isfinite(backward_s)),
    update_s DOUBLE CHECK (isfinite(update_s))
);
COMMENT ON TABLE raw.compute IS 'How long whole passes computed, one row per batch size, trial and rank';
COMMENT ON COLUMN raw.compute.run_id IS 'The run';
COMMENT ON COLUMN raw.compute.batch_size IS 'Examples per step and device';
COMMENT ON COLUMN raw.compute.trial IS 'Repetition of the same measurement';
COMMENT ON COLUMN raw.compute.rank IS 'Rank that computed, from 0';
COMMENT ON COLUMN raw.compute.forward_s IS 'Forward pass, seconds';
COMMENT ON COLUMN raw.compute.backward_s IS 'Backward pass, seconds';
COMMENT ON COLUMN raw.compute.update_s IS 'Update of the parameters, seconds; NULL: not measured';

CREATE TABLE raw.dnn (
    run_id VARCHAR NOT NULL,
    dnn VARCHAR NOT NULL,
    framework VARCHAR NOT NULL,
    family VARCHAR,
    image_size INTEGER,
    batch_size INTEGER NOT NULL,
    parameter_count BIGINT NOT NULL,
    flops DOUBLE CHECK (isfinite(flops))
);
COMMENT ON TABLE raw.dnn IS 'DNNs whose graphs were extracted, one row per run';
COMMENT ON COLUMN raw.dnn.run_id IS 'The run';
COMMENT ON COLUMN raw.dnn.dnn IS 'Name of the network, for example resnet50';
COMMENT ON COLUMN raw.dnn.framework IS 'tensorflow or pytorch';
COMMENT ON COLUMN raw.dnn.family IS 'Networks of one design, for example resnet; NULL: not known';
COMMENT ON COLUMN raw.dnn.image_size IS 'Side of the square input images, pixels; NULL: input is no image';
COMMENT ON COLUMN raw.dnn.batch_size IS 'Examples per step the graph is for';
COMMENT ON COLUMN raw.dnn.parameter_count IS 'Number of trained parameters';
COMMENT ON COLUMN raw.dnn.flops IS 'Floating-point operations of one forward pass of the batch; NULL: not known';

CREATE TABLE raw.dnn_node (
    run_id VARCHAR NOT NULL,
    node INTEGER NOT NULL,
    name VARCHAR NOT NULL,
    type VARCHAR NOT NULL,
    parameter_count BIGINT NOT NULL,
    flops DOUBLE CHECK (isfinite(flops)),
    input_bytes BIGINT,
    output_bytes BIGINT,
    attributes JSON NOT NULL
);
COMMENT ON TABLE raw.dnn_node IS 'Canonical operations of a DNN''s graph, one row per node';
COMMENT ON COLUMN raw.dnn_node.run_id IS 'The run';
COMMENT ON COLUMN raw.dnn_node.node IS 'Index of the node in the graph, from 0';
COMMENT ON COLUMN raw.dnn_node.name IS 'Name the framework gives it';
COMMENT ON COLUMN raw.dnn_node.type IS 'Canonical kind of operation, the same for all frameworks';
COMMENT ON COLUMN raw.dnn_node.parameter_count IS 'Number of trained parameters';
COMMENT ON COLUMN raw.dnn_node.flops IS 'Floating-point operations of its forward computation; NULL: not known';
COMMENT ON COLUMN raw.dnn_node.input_bytes IS 'Size of all its inputs, bytes; NULL: not known';
COMMENT ON COLUMN raw.dnn_node.output_bytes IS 'Size of all its outputs, bytes; NULL: not known';
COMMENT ON COLUMN raw.dnn_node.attributes IS 'What else describes it, for example filter, strides, padding';

CREATE TABLE raw.dnn_edge (
    run_id VARCHAR NOT NULL,
    source INTEGER NOT NULL,
    target INTEGER NOT NULL
);
COMMENT ON TABLE raw.dnn_edge IS 'Edges of a DNN''s graph: target reads what source writes';
COMMENT ON COLUMN raw.dnn_edge.run_id IS 'The run';
COMMENT ON COLUMN raw.dnn_edge.source IS 'Index of the node that writes';
COMMENT ON COLUMN raw.dnn_edge.target IS 'Index of the node that reads';
