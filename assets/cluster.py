"""What the cluster itself can do."""

from assets.probing import probe_asset
from reports import plots, srift_plots

links = probe_asset(
    "cluster",
    "links",
    "link",
    what="Goodput of 1 to n simultaneous flows between the server and the workers, each direction.",
    kind="iperf3",
    plot=plots.goodput,
)
contention = probe_asset(
    "cluster",
    "contention",
    "contention",
    what="What transfers of training get of a link that n workers use; empty unless a study asks.",
    kind="tensorflow",
    deps=[links],
    plot=plots.contention,
)
allreduce = probe_asset(
    "cluster",
    "allreduce",
    "allreduce",
    what="Bus bandwidth of all-reduces by size, ranks and transfers at once; of studies of DDP.",
    kind="pytorch",
    deps=[links],
    plot=srift_plots.bus_bandwidth,
)
