"""How many times as long as PredictDDL Ernest takes for a batch of workloads (Fig. 13).

Ernest's time is that of its own runs, where they were measured: what a plan expects of them is not
compared. Its fits and forecasts take milliseconds. PredictDDL's is that of a fit, embeddings and
forecasts, and, where they count, of the runs that the fit sees, which are measured once for all
workloads. Graphs are at hand; neither their tracing nor the embedder's training counts.

Source: Assogba et al., PredictDDL, section IV-B5.
"""

from collections.abc import Sequence
from contextlib import suppress
from time import process_time

import polars as pl

from forecasting.findings.store import Store, digest, known_digest
from forecasting.findings.waiting import Workloads
from models.ernest.systems import ERNEST
from models.predictddl.fitted import PredictDDL
from models.predictddl.known import Known, key_of
from models.predictddl.systems import PREDICTDDL
from models.system import NotCovered
from models.threads import one_thread
from warehouse.records import BadInput, Scenario

COLUMNS = {
    "workloads": pl.Int64,
    "ernest_s": pl.Float64,
    "answering_s": pl.Float64,
    "learning_s": pl.Float64,
    "ratio": pl.Float64,
    "ratio_with_runs": pl.Float64,
}
"""Of a number of workloads: seconds of Ernest's own runs; of PredictDDL's fit, embeddings and
forecasts, and of the runs that it learns from; Ernest's seconds over PredictDDL's, without these
runs and with them."""


def answering_s(known: Known, workloads: Workloads, store: Store | None = None) -> list[float]:
    """Return seconds of a core until PredictDDL has answered for one workload, two, and so on.

    Nothing, where it cannot be fitted. Seconds are of processor time, which a busy host stretches
    too, but less than the clock's.

    Args:
        known: the runs that it learns from.
        workloads: in their order.
        store: keeps the seconds; None: they are measured.
    """
    batches = [[one for _, some in of for one in some] for of in workloads.values()]
    asked = (" ".join(one.scenario_id for one in batch) for batch in batches)
    found = (store or Store()).frame(
        "answering",
        __name__,
        digest(known_digest(known), *asked),
        lambda: pl.DataFrame({"seconds": _measured_s(known, batches)}, {"seconds": pl.Float64}),
    )
    return found["seconds"].to_list()


def _measured_s(known: Known, batches: Sequence[Sequence[Scenario]]) -> list[float]:
    known.graphs([key_of(one) for batch in batches for one in batch])
    # Of others, embeddings may be at hand.
    fresh = Known(known.runs, known.measured, known.graphs, known.embedder)
    found = []
    with one_thread():
        began_s = process_time()
        try:
            fitted = PredictDDL.fit(fresh)
        except BadInput:
            return []
        for batch in batches:
            for one in batch:
                with suppress(NotCovered):
                    fitted.predict([one])
            found.append(process_time() - began_s)
    return found


def compared(waiting: pl.DataFrame, answering: Sequence[float]) -> pl.DataFrame:
    """Return `COLUMNS`: Ernest's time beside PredictDDL's, by number of workloads.

    Args:
        waiting: rows of `forecasting.findings.waiting`.
        answering: of `answering_s`.
    """
    ours = waiting.filter(system=PREDICTDDL.name).select("workloads", learning_s="measuring_s")
    took = pl.DataFrame(
        {"workloads": range(1, len(answering) + 1), "answering_s": answering},
        {"workloads": pl.Int64, "answering_s": pl.Float64},
    )
    return (
        waiting.filter(~pl.col("expected"), system=ERNEST.name)
        .select("workloads", ernest_s="measuring_s")
        .join(took, on="workloads")
        .join(ours, on="workloads")
        .with_columns(
            ratio=pl.col("ernest_s") / pl.col("answering_s"),
            ratio_with_runs=pl.col("ernest_s") / (pl.col("answering_s") + pl.col("learning_s")),
        )
        .select(COLUMNS.keys())
        .sort("workloads")
    )
