"""Training an embedder as a run of Dagster's: `python -m pipelines.service.retraining TYPE MINUTES`."""

import sys
from pathlib import Path

from assets.embedders import JOB, config_of, embedder_definitions
from pipelines import history
from pipelines.resources import resources
from studies.progress import Progress
from warehouse.home import home
from warehouse.records import StepcastError


def main() -> None:
    """Train; what the user can mend is one line."""
    name, minutes, *source = sys.argv[1:]
    definitions = embedder_definitions(resources("loopback", Progress()))
    job = definitions.resolve_job_def(JOB)
    config = config_of(name, float(minutes), Path(source[0]) if source else None)
    try:
        with history.instance(home()) as instance:
            job.execute_in_process(run_config=config, instance=instance)
    except StepcastError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
