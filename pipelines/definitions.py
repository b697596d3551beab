"""What Dagster is to know of a home: what its web interface, daemon and run workers load.

Whoever needs the definitions of one study has them from `pipelines.lineage` in a fraction of the
time.
"""

from pipelines.execution import resources
from pipelines.lineage import all_definitions, shown_files
from warehouse.home import home

defs = all_definitions(resources(), *shown_files(home()))
