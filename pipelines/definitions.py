"""Everything Dagster is to know: what its web interface, daemon and run workers load.

Whoever needs the definitions of one study has them from `pipelines.lineage` in a fraction of the
time.
"""

from pipelines.lineage import study_files, whole
from pipelines.resources import resources

defs = whole(resources(), *study_files())
