"""Namespaces and control groups that tests leave on this host."""

from profilers.clusters import cgroups, netns, owner


def _named() -> list[str]:
    spaces = [name for name in netns.namespaces() if name.startswith(owner.PREFIX)]
    return spaces + cgroups.names(owner.PREFIX)


_BEFORE = frozenset(_named())


def left_behind() -> list[str]:
    """Return every namespace and control group of Stepcast that was not there before the tests.

    What was there is of a run killed outside them; its home's `stepcast reap` removes it.
    """
    return [name for name in _named() if name not in _BEFORE]
