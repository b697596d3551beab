"""What a code server of a test serves: the sensor alone, on a host where nobody measures."""

from dagster import Definitions

from pipelines import lineage
from pipelines.execution import resources
from profilers.steady import hostlock

hostlock.holder = lambda: ""
defs = Definitions.merge(lineage.receiving_definitions(), Definitions(resources=resources()))
