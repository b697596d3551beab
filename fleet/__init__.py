"""The fleet: node types that are profiled again and again, when, and whether they drift.

What is measured of a type is a study that only profiles (`fleet.studies`); its rounds are visits.
"""

NO_MEMBERS = "the fleet has no members: `stepcast fleet add` adds one"
