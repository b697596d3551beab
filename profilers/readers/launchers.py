"""What launchers and viewers of logs put before each line of a program."""

import re

_COLOUR = re.compile(r"\x1b\[[0-9;]{0,16}m")
_PREFIX = re.compile(
    r"""\s*(?:
        \[(?:[\w.-]{1,80}@)?[0-9]{1,9},[0-9]{1,9}\](?:<std(?:out|err|diag)>:?)?  # mpirun
        | [0-9]{1,6}:                                             # srun --label
        | \[pod/[^\]\s]{1,300}\]                                  # kubectl logs --prefix
        | \[(?:rank|default)[0-9]{1,6}\]:                         # torchrun
        | \((?:[\w.:-]{1,120}\ )?pid=[0-9]{1,9}(?:,\ ip=[\w.:]{1,45})?\)  # Ray
        | \[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T\ ][0-9:]{8}(?:[.,][0-9]{1,9})?(?:Z|[+-][0-9:]{4,5})?\]?:?
        | >                                                       # Markdown, mail
    )\s?""",
    re.VERBOSE,
)
_MOST = 8
"""Prefixes before one line: a launcher inside another, in a quote."""


def unprefixed(line: str) -> str:
    """Return a line of a log without colours and known prefixes, stripped."""
    if "\x1b" in line:
        line = _COLOUR.sub("", line)
    start = 0
    for _ in range(_MOST):
        if (found := _PREFIX.match(line, start)) is None:
            break
        start = found.end()
    return line[start:].strip()
