#!/usr/bin/env bash
# Make .venv with the locked packages and install missing system tools, and the servers of tests, of
# which none is started. Run it as often as you like: it is quick when nothing changed and repairs
# what an interrupted run left.
set -euo pipefail
cd -P "$(dirname "$0")/.."
PATH="$PATH:/usr/sbin:/sbin" # Debian keeps tc and tcpdump outside a plain user's PATH
STAMP=.venv/.installed
NEEDED="Python 3.11, 3.12 or 3.13 (TensorFlow has no wheels for others)"

say() { printf 'setup: %s\n' "$*"; }
die() { say "$*" >&2; exit 1; }

suits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; }

version_of() { "$1" -V 2>/dev/null || echo "not there"; }

pick_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if suits "$candidate"; then echo "$candidate"; return; fi
    done
    die "$NEEDED is needed, but ${PYTHON:-python3} is $(version_of "${PYTHON:-python3}")." \
        "Install one, or name it: make setup PYTHON=/path/to/python3.12"
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif sudo -n true 2>/dev/null; then sudo -n "$@"
    else return 1; fi
}

can_apt() { command -v apt-get >/dev/null && as_root true; }

apt_install() {
    can_apt || return 1
    say "apt-get install $*"
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120)
    as_root "${apt[@]}" update || true # one stale source must not stop the others
    # Debian starts servers that it installs, unless this program forbids it: tests start their own.
    local policy=/usr/sbin/policy-rc.d made=no status=0
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' | as_root install -m 755 /dev/stdin "$policy"
        made=yes
    fi
    as_root "${apt[@]}" install -y --no-install-recommends "$@" || status=$?
    [ "$made" = no ] || as_root rm -f "$policy"
    return "$status"
}

fingerprint() {
    { echo "$PWD"; cat requirements.lock pyproject.toml; .venv/bin/python -VV; } | sha256sum
}

made_by_wanted_python() {
    [ -z "${PYTHON:-}" ] || [ "$(version_of "$PYTHON")" = "$(version_of .venv/bin/python)" ]
}

up_to_date() {
    [ -x .venv/bin/stepcast ] && [ -e "$STAMP" ] && made_by_wanted_python &&
        [ "$(fingerprint)" = "$(cat "$STAMP")" ]
}

# .venv has a running interpreter and pip, and was made in this place.
venv_is_sound() {
    suits .venv/bin/python && made_by_wanted_python &&
        .venv/bin/python -m pip --version >/dev/null 2>&1 &&
        head -n 2 .venv/bin/pip | grep -qF "$PWD/.venv/bin/python"
}

own_pip() { "$1" -m pip --disable-pip-version-check --python .venv/bin/python "${@:2}"; }

# Debian keeps ensurepip, which `venv` needs, in a package of its own: try without it first.
make_venv() {
    local python package
    python=$(pick_python)
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    say "making .venv with $("$python" -V)"
    rm -rf .venv
    "$python" -m venv .venv >/dev/null 2>&1 && return
    rm -rf .venv
    if "$python" -m venv --without-pip .venv 2>/dev/null &&
        own_pip "$python" --version >/dev/null 2>&1; then
        say "$python has no ensurepip; taking pip from $python itself"
        own_pip "$python" install -q pip && return
    fi
    rm -rf .venv
    apt_install "$package" && "$python" -m venv .venv && return
    rm -rf .venv
    die "$python can make no virtual environment. Install what it lacks and run this again:" \
        "apt-get install $package (as root)"
}

# pip writes INSTALLER after a package's last file: without it, an install was cut short.
drop_half_installed() {
    local info
    for info in .venv/lib/python3.*/site-packages/*.dist-info; do
        if [ -d "$info" ] && [ ! -e "$info/INSTALLER" ]; then
            say "repairing $(basename "$info")"
            rm -rf "$info"
        fi
    done
}

install_packages() {
    local pip=(.venv/bin/python -m pip --disable-pip-version-check install)
    rm -f "$STAMP"
    drop_half_installed
    say "installing the packages of requirements.lock; the first time takes minutes"
    "${pip[@]}" -r requirements.lock
    "${pip[@]}" -qq --no-deps --no-build-isolation -e .
    fingerprint >"$STAMP"
}

missing_tools() {
    local pair
    for pair in ip:iproute2 tc:iproute2 iperf3:iperf3 tcpdump:tcpdump \
        sysctl:procps nsenter:util-linux setpriv:util-linux; do
        command -v "${pair%%:*}" >/dev/null || echo "${pair##*:}"
    done
    # Tests alone need these.
    command -v sshd >/dev/null || echo openssh-server
    command -v chromium >/dev/null || echo chromium
    command -v nginx >/dev/null || echo nginx-light
    ls -d /usr/lib/postgresql/*/bin >/dev/null 2>&1 || echo postgresql
}

install_tools() {
    local packages failed=.venv/.apt-failed
    mapfile -t packages < <(missing_tools | sort -u)
    [ "${#packages[@]}" -gt 0 ] || return 0
    if can_apt && [ ! -e "$failed" ]; then
        apt_install "${packages[@]}" && return 0
        touch "$failed" # do not make every later start wait for an unreachable mirror
    fi
    say "missing system packages: ${packages[*]}. To mend, as root: apt-get install ${packages[*]}" \
        "(until then tests skip that need them; without iproute2 the loopback backend is used)"
    case " ${packages[*]} " in *" iperf3 "* | *" util-linux "*)
        say "iperf3 and setpriv are needed on every backend: \`stepcast doctor\` says for what" ;;
    esac
}

if ! up_to_date 2>/dev/null; then
    venv_is_sound || make_venv
    install_packages
fi
install_tools
# Else each command compiles 250 modules anew where PYTHONDONTWRITEBYTECODE is set, as in containers.
.venv/bin/python -m compileall -q -x '/[.]|^[.]/tests/' .
