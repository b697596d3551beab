"""Names that become part of a path, a namespace or a command: one pattern for all."""

import re

from warehouse.records import BadInput

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")


def checked_name(name: str, what: str) -> str:
    """Return a name that is safe to become part of a path, a namespace or a command.

    Raises:
        BadInput: it is not; `what` says whose name it is, such as "study".
    """
    if _NAME.fullmatch(name) is None:
        raise BadInput(
            f"{what} {name!r:.120}: a name has 1 to 100 letters, digits and . _ + -, and begins "
            "with a letter or digit"
        )
    return name
