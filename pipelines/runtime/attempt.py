"""One attempt at a job, from its folder and cluster to the run that lands."""

from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

from models.srift.performance import Performance
from pipelines.runtime.fleet import RANK, Fleet
from pipelines.runtime.janitor import employed
from pipelines.runtime.job_file import TrainingJob
from pipelines.runtime.keeping import PROBE, Keeper
from pipelines.runtime.runner import Answer, Runner, Tell
from pipelines.runtime.state import State
from pipelines.runtime.story import frame
from profilers.clusters import host_id, open_cluster
from profilers.nodes.notices import EC2_METADATA
from profilers.nodes.programs import Programs
from profilers.steady.hostlock import host_lock
from studies.origin import with_origin
from warehouse.landing import land
from warehouse.records import Backend, Run


def train(
    job: TrainingJob,
    performance: Performance,
    backend: Backend,
    home: Path,
    tell: Tell,
    answer: Answer,
    *,
    waiting: Callable[[str], None] = lambda _: None,
    program: str = RANK,
    notices: Callable[[str], str] | None = None,
) -> tuple[Keeper, State]:
    """Train a job, or go on with it, until it has finished or is aborted; lands what happened.

    Whatever ends this, nodes and programs end with it, and the same call goes on from the last
    checkpoint; where only landing is left to do, it lands.

    Args:
        job: what is trained.
        performance: of its network (see `profiles.read_performance`).
        backend: where its nodes are.
        home: where attempts are kept, and runs land.
        tell: is given the story as it happens.
        answer: asks the user, or a policy, where nothing is feasible.
        waiting: is told what the job waits for before it begins.
        program: as in `Fleet`.
        notices: as in `Fleet`.

    Raises:
        BadInput: its last attempt trains something else.
        KeyboardInterrupt: the user stopped it; a checkpoint was written before.
        StepcastError: what happened could not be written, for example to a full disk.
    """
    controller = job.controller(performance)
    if notices is None and backend == "ec2":
        notices = _metadata
    with ExitStack() as stack:
        stack.enter_context(host_lock(waiting))
        keeper = stack.enter_context(Keeper.open(home, job))
        stack.enter_context(employed())
        nodes = open_cluster(backend, (), job.link_mbps)
        # Ranks watch out themselves, and write a checkpoint where there is still time.
        nodes.most_s, nodes.ends_on_notice = job.deadline_s, False
        cluster = stack.enter_context(nodes)
        programs = stack.enter_context(Programs(cluster, f"job {job.name}"))
        devices = {one.node_type: performance.node(one.node_type).devices for one in job.offers}
        fleet = Fleet(cluster, programs, job, keeper.folder, devices, program, notices)
        state = Runner(job, controller, fleet, keeper, tell, answer).run()
    if keeper.run is None:
        keeper.end(_run(job, backend, keeper, state, fleet))
    _land(home / "landing", keeper)
    return keeper, state


def _land(landing: Path, keeper: Keeper) -> None:
    """Land an attempt that is over, unless it has landed already."""
    run = keeper.run
    if run is not None and not (landing / run.run_id).exists():
        land(landing, run, None, {"runtime_event": frame(keeper.story)})
    keeper.landed()


def _metadata(node: str) -> str:
    """Return where an EC2 instance is told of interruptions: each asks a service of its own."""
    return EC2_METADATA


def _run(job: TrainingJob, backend: Backend, keeper: Keeper, state: State, fleet: Fleet) -> Run:
    error = state.error
    run = Run(
        run_id=keeper.run_id,
        probe=PROBE,
        purpose="measurement",
        study=job.name,
        repeat=len(list(keeper.folder.parent.iterdir())),
        scenario_id=None,
        backend=backend,
        status="failed" if error else "ok",
        error=error,
        started_at=keeper.began_at,
        ended_at=keeper.began_at + timedelta(seconds=keeper.now_s()),
        host_id=host_id(backend),
        host=fleet.host,
        software=fleet.software,
        config={
            "dnn": job.dnn,
            "image_size": job.image_size,
            "samples": job.samples,
            "seed": job.seed,
            "global_batch": job.global_batch,
            "iterations": job.iterations,
            "minimize": job.minimize,
            "deadline_s": state.deadline_s,
            "budget_usd": state.budget_usd,
            "link_mbps": job.link_mbps,
            **fleet.facts,
        },
        cost_usd=state.spent_usd,
    )
    return with_origin(run)
