"""What regressions on features of networks tell (Figs. 1, 2, 6, 10 and 11 of PredictDDL)."""

from forecasting.findings.left_out import EPOCH_IMAGES, FAMILIES, RANDOM, Contest
from forecasting.findings.regressions import Regressions
from forecasting.findings.reuse import Reuse
from reports import reuse_plots
from reports.figure_html import captioned, grid
from reports.html_table import Cell, table
from reports.reuse_wording import HEAD, figures, judged_by, noise, ratios_of

_BOXES = (
    "<p>All of these regressions see some of the round's runs and forecast the others: random "
    "fifths of all (the paper's 80/20), and families. No forecast here is in the ledger.</p>"
    "<p>Linear regression of epoch times on the network's name, the cluster and the batch (black "
    "box), and on numbers of layers and parameters too (gray box). An epoch is "
    f"{EPOCH_IMAGES:,} images. Log-linear regression on work, which the paper does not have, "
    "stands beside them. With a name for each network, "
    "sizes add nothing on networks in the fit: they differ where families are left out. "
    "The paper's gray box has errors that are less by 91.2 % (MobileNet-V3) and 99.5 % (VGG-16)."
    "</p>"
)
_FEATURES = (
    "<p>Second-order polynomials of one feature or several of a network, and of the cluster. In "
    "the paper, errors with embeddings are less by 96.4 % than with layers, and by 97.4 % than "
    "with parameters. Log-linear regression sees operations, activations and parameters.</p>"
)
_KINDS = (
    "<p>Kinds of regressors on embeddings and the cluster. Settings are those of the paper's grids "
    "that err least on networks left out of the runs that a fit sees; where a family is left out, "
    "of those of them that are in other quarters of the families. In the paper, polynomials and "
    "linear regression do well on both of its data sets.</p>"
)
_AMOUNTS = (
    "<p>Second-order polynomials on embeddings and the cluster, which see a half, two thirds and "
    "four fifths of the runs, drawn by a seed; each run is forecast once. In the paper, more data "
    "does not make errors less.</p>"
)


def section(found: Reuse | None) -> str:
    """Return what regressions tell; nothing where no reused model was judged."""
    if found is None or (tell := found.regressions) is None:
        return ""
    parts = (
        ("Whether sizes of a network help: black box and gray box", _BOXES, _boxes(tell)),
        ("What features of a network are worth", _FEATURES, _contest(tell.features)),
        ("Which kind of regressor does best", _KINDS, _contest(tell.kinds)),
        ("Whether more data helps", _AMOUNTS, _amounts(tell.amounts)),
    )
    noted = f"<p>{noise(found)}</p>"
    return "".join(f"<h2>{title}</h2>{said}{shown}{noted}" for title, said, shown in parts)


def _boxes(tell: Regressions) -> str:
    """Return errors of boxes, and by number of servers, for what was and was not seen."""
    several = tell.of_two["workers"].n_unique() > 1
    splits = (RANDOM, FAMILIES) if several else ()
    drawn = [(judged_by(split), _by_servers(tell, split)) for split in splits]
    return f"{_table(tell.boxes)}<p></p>{_by_network(tell.boxes)}<p></p>{grid(drawn)}"


def _by_servers(tell: Regressions, split: str) -> str:
    """Return errors of two networks by number of servers."""
    rows = tell.of_two.sort("dnn", maintain_order=True).filter(split=split)
    drawn = reuse_plots.beside(rows, "dnn", "rmse_s", "RMSE, seconds of an epoch")
    return captioned(
        drawn,
        f"Root mean square error of epochs by number of servers, {judged_by(split)}",
        "Two networks, each on a scale of its own: those that the paper shows where they were "
        "measured, else those on most numbers of servers. Where boxes agree, one line covers the "
        "other.",
    )


def _by_network(boxes: Contest) -> str:
    """Return root mean square errors network by network, random fifths being left out."""
    rows = boxes.by_network.filter(split=RANDOM)
    wide = rows.pivot("of", index=["dnn", "n"], values="rmse_s", maintain_order=True)
    names = boxes.overall["of"].unique(maintain_order=True).to_list()
    body = [
        [
            Cell(row["dnn"], is_number=False),
            Cell(str(row["n"])),
            *(Cell(_seconds(row[name])) for name in names),
        ]
        for row in wide.sort("dnn").iter_rows(named=True)
    ]
    return table(("network", "runs", *(f"RMSE, {name}" for name in names)), body)


def _seconds(value: float) -> str:
    """Return seconds of an epoch."""
    return f"{value:,.0f} s"


def _contest(contest: Contest) -> str:
    drawn = [
        (
            judged_by(split),
            ratios_of(contest.by_network.filter(split=split), judged_by(split)),
        )
        for split in (RANDOM, FAMILIES)
    ]
    return f"{_table(contest)}<p></p>{grid(drawn)}"


def _amounts(contest: Contest) -> str:
    drawn = [("Random splits", ratios_of(contest.by_network, "random splits"))]
    return f"{_table(contest)}<p></p>{grid(drawn)}"


def _table(contest: Contest) -> str:
    head = ("by", "judged by", *HEAD, "RMSE of epochs")
    body = [
        [
            Cell(row["of"], is_number=False),
            Cell(judged_by(row["split"]), is_number=False),
            *figures(row),
            Cell(_seconds(row["rmse_s"])),
        ]
        for row in contest.overall.iter_rows(named=True)
    ]
    return table(head, body)
