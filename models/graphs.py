"""Graphs of networks, as systems ask for them: one that cannot be had is refused like any other."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from models.system import NotCovered

_Asked = ParamSpec("_Asked")
_Found = TypeVar("_Found")


def refusing(extract: Callable[_Asked, _Found]) -> Callable[_Asked, _Found]:
    """Return a function of `networks.extraction` that refuses where it would fail.

    Other systems may still forecast the scenario. The refusal is what a failed child process, which
    may lack memory, has said, or why there is no such graph.

    Raises:
        NotCovered: the returned function found no graph.
    """

    @wraps(extract)
    def found(*asked: _Asked.args, **by_name: _Asked.kwargs) -> _Found:
        try:
            return extract(*asked, **by_name)
        except (ValueError, RuntimeError) as error:
            raise NotCovered(str(error)) from error

    return found
