#!/usr/bin/env bash
# Write requirements.lock from what .venv holds. To move to newer versions: upgrade them in .venv
# with pip, run the tests, then run this.
set -euo pipefail
cd -P "$(dirname "$0")/.."

.venv/bin/python -m pip check

packages=$(.venv/bin/python -m pip --disable-pip-version-check list --format=freeze \
    --exclude-editable --exclude pip)
{
    cat <<'HEADER'
# Exact versions of everything Stepcast was tested with; made by `make lock`.
# `make setup` installs it with plain pip, then Stepcast itself with --no-deps.
#
# torch is pinned without its build, and the CUDA packages it asks for are left out, so either of
# its builds fits. Without more, pip takes the CUDA build (gigabytes). On a machine without a GPU
# choose the CPU build before the first set-up, with the index that the install page of PyTorch
# shows for "CPU":
#     PIP_EXTRA_INDEX_URL=<that index> make setup
# (To change the build later: make clean first.) nvidia-nccl-cu12 is not one of them: xgboost
# asks for it on every Linux.
HEADER
    # Drop local versions such as +cpu, and what only torch's CUDA build needs.
    sed -E 's/\+[^+]*$//' <<<"$packages" |
        grep -Ev '^(cuda|nvidia|triton)[-_=]' |
        cat - <(grep '^nvidia-nccl-cu12==' <<<"$packages" || true) |
        LC_ALL=C sort -f
} >requirements.lock.new
mv requirements.lock.new requirements.lock
