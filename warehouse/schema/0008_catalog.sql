-- What the papers publish of instances, their prices and their own results. Nothing here was measured by us.
CREATE SCHEMA catalog;

CREATE TABLE catalog.node_type (
    node_type VARCHAR PRIMARY KEY,
    provider VARCHAR NOT NULL,
    device_name VARCHAR,
    device_count SMALLINT,
    device_memory_gb DOUBLE,
    device_cores INTEGER,
    processor VARCHAR,
    cores INTEGER,
    clock_ghz DOUBLE,
    memory_gb DOUBLE,
    network_gbps DOUBLE,
    network_variable BOOLEAN,
    source VARCHAR NOT NULL,
    note VARCHAR
);
COMMENT ON TABLE catalog.node_type IS 'Hardware of the papers'' machines as the papers print it, one row per kind; NULL: not printed';
COMMENT ON COLUMN catalog.node_type.node_type IS 'Kind of machine: an EC2 instance type, or a name of ours for a kind that has none';
COMMENT ON COLUMN catalog.node_type.provider IS 'Who has it: aws, cloudlab, or private to the authors';
COMMENT ON COLUMN catalog.node_type.device_name IS 'Accelerator; NULL: none';
COMMENT ON COLUMN catalog.node_type.device_count IS 'Number of accelerators';
COMMENT ON COLUMN catalog.node_type.device_memory_gb IS 'Memory of one accelerator, gigabytes as printed';
COMMENT ON COLUMN catalog.node_type.device_cores IS 'CUDA cores of one accelerator';
COMMENT ON COLUMN catalog.node_type.processor IS 'Model of the processor';
COMMENT ON COLUMN catalog.node_type.cores IS 'Number of processor cores, virtual ones on EC2';
COMMENT ON COLUMN catalog.node_type.clock_ghz IS 'Clock of the processor, gigahertz';
COMMENT ON COLUMN catalog.node_type.memory_gb IS 'Memory, gigabytes as printed';
COMMENT ON COLUMN catalog.node_type.network_gbps IS 'Rated speed of the network, gigabits per second';
COMMENT ON COLUMN catalog.node_type.network_variable IS 'Whether that speed is a best case (printed with a star)';
COMMENT ON COLUMN catalog.node_type.source IS 'Papers and places the row is from, as in catalog.paper_figure';
COMMENT ON COLUMN catalog.node_type.note IS 'Where papers disagree, or what they leave open';

CREATE TABLE catalog.price (
    provider VARCHAR NOT NULL,
    node_type VARCHAR NOT NULL,
    region VARCHAR,
    market VARCHAR NOT NULL CHECK (market IN ('on_demand', 'spot')),
    usd_per_hour DOUBLE NOT NULL CHECK (isfinite(usd_per_hour)),
    observed_year SMALLINT NOT NULL,
    paper VARCHAR NOT NULL,
    place VARCHAR NOT NULL,
    note VARCHAR
);
COMMENT ON TABLE catalog.price IS 'Prices the papers print, and made-up ones of emulated node types, one row per node type and market; observed ones are in raw.price';
COMMENT ON COLUMN catalog.price.provider IS 'Who rents it';
COMMENT ON COLUMN catalog.price.node_type IS 'Kind of machine';
COMMENT ON COLUMN catalog.price.region IS 'Region of the provider; NULL: the paper does not say';
COMMENT ON COLUMN catalog.price.market IS 'on_demand or spot';
COMMENT ON COLUMN catalog.price.usd_per_hour IS 'Price of one node, US dollars per hour';
COMMENT ON COLUMN catalog.price.observed_year IS 'Year the authors looked, as far as the paper''s references tell, or the price was declared';
COMMENT ON COLUMN catalog.price.paper IS 'Paper it is from, as in catalog.paper_figure; declared: a file of ours makes it up';
COMMENT ON COLUMN catalog.price.place IS 'Table or section of the paper, or the file';
COMMENT ON COLUMN catalog.price.note IS 'What the paper leaves open';

CREATE TABLE catalog.paper_figure (
    paper VARCHAR NOT NULL,
    place VARCHAR NOT NULL,
    quantity VARCHAR NOT NULL,
    subject VARCHAR,
    bound VARCHAR CHECK (bound IN ('at_least', 'at_most', 'about')),
    value DOUBLE NOT NULL CHECK (isfinite(value)),
    unit VARCHAR NOT NULL
);
COMMENT ON TABLE catalog.paper_figure IS 'Results the papers print, one row per figure';
COMMENT ON COLUMN catalog.paper_figure.paper IS 'async_sgd (ICPE 2020), srift, ceer or predictddl';
COMMENT ON COLUMN catalog.paper_figure.place IS 'Table, figure or section of the paper';
COMMENT ON COLUMN catalog.paper_figure.quantity IS 'What the figure is of';
COMMENT ON COLUMN catalog.paper_figure.subject IS 'DNN, node type, device or case it is of; NULL: all of the paper''s';
COMMENT ON COLUMN catalog.paper_figure.bound IS 'at_least, at_most or about where the paper prints no exact figure; NULL: it does';
COMMENT ON COLUMN catalog.paper_figure.value IS 'The figure, in the unit of this row';
COMMENT ON COLUMN catalog.paper_figure.unit IS 'Unit of the value';

INSERT INTO catalog.node_type
FROM read_csv(getvariable('schema_folder') || '/0008_node_type.csv', header = true, all_varchar = true);
INSERT INTO catalog.price
FROM read_csv(getvariable('schema_folder') || '/0008_price.csv', header = true, all_varchar = true);
INSERT INTO catalog.paper_figure
FROM read_csv(getvariable('schema_folder') || '/0008_paper_figure.csv', header = true, all_varchar = true);
