"""How assets tell what they do and what they have finished."""

from dagster import get_dagster_logger


class Progress:
    """Tells Dagster's log; the command line's bar listens too.

    Names of finished tasks are those of `assets.plan`.
    """

    def say(self, text: str) -> None:
        """Tell what runs now."""
        get_dagster_logger().info(text)

    def warn(self, text: str) -> None:
        """Tell what the user should know although the run goes on."""
        get_dagster_logger().warning(text)

    def finished(self, task: str) -> None:
        """Tell that a task of the plan is over."""
