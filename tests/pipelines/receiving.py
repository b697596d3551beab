"""What a code server of a test serves: the sensor alone, on a host where nobody measures."""

from dagster import Definitions

from pipelines import automation
from pipelines.execution import resources
from profilers.steady import hostlock

hostlock.holder = lambda: ""
defs = Definitions.merge(automation.receiving_definitions(), Definitions(resources=resources()))
