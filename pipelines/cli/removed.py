"""Commands that are no longer there, and what to use instead: until version 0.3."""

from collections.abc import Mapping, Sequence

_BENCHES = {
    "ceer": "lab/ceer.md",
    "fleet": "docs/drift.md",
    "ingest": "docs/scale.md",
    "optimizer": "lab/srift.md",
    "predict": "docs/predict.md",
    "predictddl": "lab/predictddl.md",
    "readers": "docs/readers.md",
    "sweep": "docs/scale.md",
}
REMOVED: Mapping[str, str] = {
    "papers": "`stepcast report studies`, of a folder of study files",
    "push": "`aws s3 sync` of the landing folder, and `stepcast load FOLDER` (docs/readers.md)",
    **{
        f"bench {name}": f"`stepcast bench` for what is still timed; {page} has what was found"
        for name, page in _BENCHES.items()
    },
    "decisions": "`stepcast recommend`; lab/srift.md has how good decisions were",
    "docs": "`stepcast query columns`",
    "demo": "`stepcast run studies/demo.yaml`",
    "embedder": "`stepcast serve --datasets FOLDER`, which trains for TYPE.npz in it",
    "fleet off": "`stepcast fleet pause`",
    "fleet on": "`stepcast fleet resume`",
    "fleet page": "`stepcast fleet status` and `stepcast query judgements`",
    "networks": "`stepcast support`",
    "node": "`stepcast serve --join URL --type NAME`",
    "noise": "`stepcast accuracy`, whose noise_floor says how much equal runs differ",
    "reproduce-external": "`stepcast import csv FILE` and `stepcast compare`; lab/ has how "
    "wrong forecasts of public files were",
    "warehouse migrate": "`stepcast load`, which brings an older history up to date",
    "show": "`stepcast history RUN`",
}
"""By the words after `stepcast`: a command, or a group and its command."""


def replacement(arguments: Sequence[str]) -> str | None:
    """Return one line about a command that is no longer there; None if it is another."""
    words = [word for word in arguments if not word.startswith("-")]
    for name in (" ".join(words[:2]), *words[:1]):
        if name in REMOVED:
            return f"there is no `stepcast {name}` any more; use {REMOVED[name]}"
    return None
