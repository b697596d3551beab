"""What Dagster is to know of a home: what its web interface, daemon and run workers load.

Whoever needs the definitions of one study has them from `pipelines.lineage` in a fraction of the
time.
"""

from pipelines.lineage import shown_files, whole
from pipelines.resources import resources
from warehouse.home import home

defs = whole(resources(), *shown_files(home()))
