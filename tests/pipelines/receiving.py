"""What a code server of a test serves: the sensor alone, on a host where nobody measures."""

from dagster import Definitions

from pipelines import sensors
from pipelines.resources import resources
from profilers.steady import hostlock

hostlock.holder = lambda: ""
defs = Definitions.merge(sensors.receiving(), Definitions(resources=resources()))
