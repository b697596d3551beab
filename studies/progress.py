"""How what runs a study tells what it does and what it has finished."""


class Progress:
    """Tells nobody; who wants to hear makes a class of it.

    Names of finished tasks are those of `studies.plan`.
    """

    def say(self, text: str) -> None:
        """Tell what runs now."""

    def warn(self, text: str) -> None:
        """Tell what the user should know although the run goes on."""

    def finished(self, task: str) -> None:
        """Tell that a task of the plan is over."""
