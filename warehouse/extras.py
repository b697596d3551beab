"""Packages that not every command needs, and the extras of Stepcast that bring them."""

import re
from importlib.util import find_spec

EXTRAS = {
    "tensorflow": "tensorflow",
    "tf_keras": "tensorflow",
    "dagster": "dagster",
    "dagster_webserver": "dagster",
    "boto3": "aws",
    "botocore": "aws",
    "transformers": "huggingface",
    "dagster_postgres": "services",
}
"""Modules, and the extra of each."""


def has_extra(extra: str) -> bool:
    """Tell whether an extra is installed; nothing is imported."""
    return all(find_spec(module) for module, of in EXTRAS.items() if of == extra)


def explain_missing(error: str) -> str | None:
    """Return which extra brings what a ModuleNotFoundError says is missing; None: none does."""
    missing = re.search(r"(?:No module named '|import of )(\w+)", error)
    if missing is None or missing[1] not in EXTRAS:
        return None
    return how_to_install(missing[1])


def how_to_install(module: str) -> str:
    """Say that a module is not installed, and which extra brings it."""
    return f"{module} is not installed; pip install 'stepcast[{EXTRAS[module]}]' brings it"
