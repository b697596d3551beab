"""The fleet: node types that are profiled again and again, when they are due and by what they may cost.

What is measured of a type is a study that only profiles (`fleet.studies`); rounds of it are visits.
"""
