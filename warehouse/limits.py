"""How large, deep and many things in foreign bytes may be: every reader takes its limits from here.

Foreign are files that `stepcast import` reads, landing folders of other machines, YAML that people
write and what nodes send. Past a limit a reader raises BadInput that names the file, the limit and
what to do. The limits bound memory: no reader takes more than a few gigabytes, whatever comes.
"""

UNPACKED_BYTES = 1 << 33
"""Of a file that is read piece by piece, after gzip: 8 GiB."""
TEXT_BYTES = 1 << 28
"""Of a text that is read whole or line by line, after gzip: 256 MiB."""
JSON_BYTES = 1 << 26
"""Of a JSON document that is parsed whole: 64 MiB, which as Python objects is up to 1.5 GiB."""
PROTOBUF_BYTES = 1 << 26
"""Of a protobuf message that is parsed whole: 64 MiB, of which messages without fields (two bytes
each) become 37 times as much memory, 2.4 GiB."""
VALUE_CHARACTERS = 1 << 24
"""Of one value in a JSON stream, such as an event: 16 Mi characters."""
LINE_CHARACTERS = 1 << 20
"""Of a line of a text that is read line by line, such as a log or the header of a CSV."""
DEPTH = 64
"""Of lists and mappings inside each other, in JSON and in YAML."""
EVENTS = 10_000_000
"""Things of one kind that a reader keeps of one file: events, operations, rows, connections."""
CONNECTIONS = 500_000
"""Of a packet capture: directions of TCP connections, 4 kB each."""
WAITING_BYTES = 1 << 28
"""Of a packet capture: segments that wait for bytes before them."""
KEPT_CHARACTERS = 1 << 28
"""Of the different texts that a reader keeps of one file: names, shapes."""
DOCUMENT_BYTES = 1 << 20
"""Of a YAML file that a person writes: study, fleet, job, mapping."""
DOCUMENT_NODES = 100_000
"""Of values in such a file after its aliases are followed."""
ROW_GROUP_BYTES = 1 << 30
"""Of a Parquet row group as it says itself, unpacked but still encoded: 1 GiB."""
TABLE_ROWS = 1 << 30
"""Of one table of a landed run: about a thousand million rows."""
SEALED_ROWS = 100_000
"""Of a file of sealed forecasts, which goes into the journal whole."""
SQL_MEMORY = "1GB"
"""What DuckDB may hold for a reader of the history before it writes to disk."""
SQL_ANSWER_BYTES = 1 << 30
"""Of rows of the history that a reader takes at once: 1 GiB."""
SQL_BYTES = 1 << 31
"""What `stepcast sql` may take in all, beyond what Stepcast takes before it: 2 GiB."""
SQL_TABLE_VALUES = 2_000_000
"""Of a table that `stepcast sql` prints for people: its columns are as wide as its values."""
SQL_SPILL = "16GB"
"""What it may write to disk beyond that, beside the history, for as long as the reader asks."""
SENT_FILES = 10_000
"""Files and folders that a node sends at a time; together they are `UNPACKED_BYTES` at most."""
SENT_BYTES = 1 << 31
"""Of a file or answer of a node that is read whole, such as a checkpoint: 2 GiB."""
SENT_S = 3600.0
"""How long a node may take to send its files."""
RUN_BYTES = 1 << 36
"""Of all files of a run that another machine landed: 64 GiB, which go to disk piece by piece."""
RUN_FILES = 10_000
"""Of files and folders of such a run."""
LISTED = 1_000
"""Of values in one list of a study or job: batch sizes, numbers of workers, interruptions."""
NODES = 10_000
"""Of nodes, devices, workers or flows at once that a study or job asks for."""
REPEATS = 1_000_000
"""Of steps, trials or windows of one measurement."""
ITERATIONS = 1_000_000_000
"""Of iterations that a job trains."""
SAMPLES = 10_000_000
"""Of samples of a dataset: their order is in memory, up to 0.5 GiB."""
BATCH = 1_000_000
"""Of samples of one iteration."""
PASSES = 100_000
"""Of passes that one step adds up."""
WORDS = 10_000_000
"""Of a sample of text."""
PIXELS = 4_096
"""Of the side of an image."""
TENSOR_BYTES = 1 << 34
"""Of what is all-reduced at once: 16 GiB."""
SECONDS = 1e9
"""Of whatever lasts: 30 years."""
MBPS = 1e9
"""Of the speed of a link: 1 Pb/s."""
USD = 1e9
"""Of prices, and of what is spent."""
ANSWER_BYTES = 1 << 24
"""Of the answer to a statement of SQL over HTTP: 16 MiB."""
ANSWER_S = 60.0
"""How long such a statement may take."""
REQUEST_HEAD_BYTES = 1 << 14
"""Of the head of a request to the service, which comes before its token is known: 16 KiB."""
REQUEST_HEAD_S = 10.0
"""How long that may take to arrive, and a connection may be open without one."""
REQUEST_CONNECTIONS = 1_000
"""Of the service at once, nodes that wait included."""
QUESTIONS = 32
"""Of the service at once, those that wait for their turn included."""
REQUEST_BYTES = 1 << 23
"""Of a request to the service: 8 MiB."""
REQUEST_S = 30.0
"""How long a request to the service may take to arrive."""
WORKLOADS = 100
"""Of one question to the service."""
ASKED_PRIMITIVES = 20_000
"""Of all graphs of one question; an embedding takes up to 8 s for 5,000 of them."""
JOURNAL_LINE = 1 << 28
"""Bytes of one entry of the journal, which is one transaction: 256 MiB."""
JOURNAL_SEGMENT = 1 << 24
"""Bytes after which a file of the journal is followed by the next one: 16 MiB."""
