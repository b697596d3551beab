#!/bin/bash
# Makes an Ubuntu instance of EC2 into one that Stepcast measures on; an image of it is what a fleet file names.
#
#   sudo PACKAGES="$(grep -Ev '^(#|dagster|psycopg2)' requirements.lock | tr '\n' ' ')" bash deploy/image.sh
#
# PACKAGES   Python packages, as pip takes them: those of requirements.lock.
# TO         the folder that gets Python and them; /opt/stepcast if not given.
# GPU        yes: the image must have NVIDIA's driver, and PyTorch must see a GPU where the machine has one.
# DRY_RUN    yes: print what would be done, and do nothing.
#
# deploy/image.yaml has this word for word; a test compares them.
set -euo pipefail

TO=${TO:-/opt/stepcast} GPU=${GPU:-no} DRY_RUN=${DRY_RUN:-no}
read -r -a packages <<< "${PACKAGES:?say which Python packages: those of requirements.lock}"

run() {
  echo "+ $*"
  if [ "$DRY_RUN" != yes ]; then "$@"; fi
}

fail() {
  echo "image.sh: $*" >&2
  exit 1
}

if [ "$GPU" = yes ] && [ "$DRY_RUN" != yes ]; then
  driver=$(modinfo -F version nvidia) || fail "the base image has no NVIDIA driver; begin with a Deep Learning Base AMI"
  echo "NVIDIA driver $driver"
fi

# What measures needs quiet: nothing is upgraded while a probe runs.
run systemctl disable --now apt-daily.timer apt-daily-upgrade.timer unattended-upgrades.service ||
  echo "image.sh: upgrades could not be switched off; go on"
export DEBIAN_FRONTEND=noninteractive
run apt-get -o DPkg::Lock::Timeout=300 -q update
run apt-get -o DPkg::Lock::Timeout=300 -y -q install --no-install-recommends python3-venv iperf3 tcpdump

run python3 -m venv "$TO"
run "$TO/bin/pip" install --quiet --no-cache-dir "${packages[@]}"

# NCCL looks for EFA's plugin, and finds it where the loader does.
for folder in /opt/amazon/ofi-nccl/lib /opt/amazon/ofi-nccl/lib/x86_64-linux-gnu /opt/aws-ofi-nccl/lib \
  /opt/amazon/efa/lib; do
  if [ -d "$folder" ]; then
    run sh -c "echo $folder >> /etc/ld.so.conf.d/stepcast-efa.conf"
  fi
done
run ldconfig

# A GPU that PyTorch does not see is found here, not by the first study.
check='import tensorflow, torch; print("PyTorch", torch.__version__, "TensorFlow", tensorflow.__version__)'
if [ "$GPU" = yes ] && compgen -G '/dev/nvidia[0-9]*' > /dev/null; then
  check="$check; assert torch.cuda.is_available(), 'PyTorch sees no GPU: this driver is too old for its CUDA'"
fi
run "$TO/bin/python" -c "$check"

# Each instance makes host keys of its own and prints them (docs/ec2.md); those of this one go.
run sh -c 'rm -f /etc/ssh/ssh_host_*'
run cloud-init clean --logs
echo "done; an image of this instance goes into section ec2 of the fleet file"
