"""What assets do, in Dagster's log."""

import logging

from dagster import get_dagster_logger

from studies.progress import Progress

# Outside a run of Dagster nobody listens; without a handler, Python would print warnings itself.
logging.getLogger("dagster").addHandler(logging.NullHandler())


class LoggedProgress(Progress):
    """Tells Dagster's log."""

    def say(self, text: str) -> None:
        """Tell what runs now."""
        get_dagster_logger().info(text)

    def warn(self, text: str) -> None:
        """Tell what the user should know although the run goes on."""
        get_dagster_logger().warning(text)
