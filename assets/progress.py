"""What assets do, in Dagster's log."""

from dagster import get_dagster_logger

from studies.progress import Progress


class LoggedProgress(Progress):
    """Tells Dagster's log."""

    def say(self, text: str) -> None:
        """Tell what runs now."""
        get_dagster_logger().info(text)

    def warn(self, text: str) -> None:
        """Tell what the user should know although the run goes on."""
        get_dagster_logger().warning(text)
