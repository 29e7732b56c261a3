#!/usr/bin/env bash
# Prepares a rented pod and starts its worker; every argument is the worker's. Safe to run twice.
# It ends with the worker's own exit status: 3 means that it is not to be started again.
# PODFLEET_EXTRAS adds to what is installed: serving,benchmark for a pod that runs benchmarks and serves models.
# PYTHON names the interpreter (python3); PODFLEET_PREPARE_ONLY=1 prepares and starts nothing.
set -euo pipefail
cd "$(dirname "$0")"
PYTHON=${PYTHON:-python3}
EXTRAS=pod,experiment,models${PODFLEET_EXTRAS:+,$PODFLEET_EXTRAS}

say() { echo "init_pod: $*"; }

if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  say "Python 3.11 or newer is needed; set PYTHON to one (found: $("$PYTHON" --version 2>&1 || echo none))" >&2
  exit 2
fi

# The image's PyTorch is used where it sees the GPU: another one would be gigabytes, and may not fit the driver.
torch_of() { "$1" -c 'import torch; print(torch.__version__, torch.version.cuda or "cpu", torch.cuda.is_available())' 2>/dev/null; }
found=$(torch_of "$PYTHON" || true)
site=()
keep=
if [ -n "$found" ]; then
  say "PyTorch of the image is used: $found"
  site=(--system-site-packages)
  # what the image has of its numerical stack is left alone
  keep=torch,numpy,triton,sympy,mpmath,networkx,fsspec,filelock,jinja2,markupsafe,typing-extensions,setuptools,pillow
fi

stamp=.venv/prepared
wanted=$(cat pyproject.toml constraints.txt scripts/locked.py | sha256sum; echo "$found $EXTRAS")
if [ ! -x .venv/bin/python ] || [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
  say "installing into .venv"
  "$PYTHON" -m venv "${site[@]}" .venv
  .venv/bin/python scripts/locked.py "$EXTRAS" --keep "$keep"
  case ",$EXTRAS," in
  *,serving,*)
    say "fetching the small model"
    .venv/bin/python -m stages.engines smollm2 || say "the small model is not here: runs that name it need it" >&2
    ;;
  esac
  printf '%s\n' "$wanted" >"$stamp"
fi

# What holds generated programs best, where the container allows it. A pod without it works too.
if ! command -v bwrap >/dev/null 2>&1 && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  say "installing bubblewrap"
  { timeout 120 apt-get update -qq && DEBIAN_FRONTEND=noninteractive timeout 120 \
    apt-get install -y -qq --no-install-recommends bubblewrap; } >/dev/null 2>&1 || true
fi
command -v bwrap >/dev/null 2>&1 ||
  say "no bubblewrap: generated programs are held by the next best that works here, and each run's log says which"

if command -v nvidia-smi >/dev/null 2>&1; then
  nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader || say "nvidia-smi cannot reach the driver" >&2
  if ! .venv/bin/python - <<'PY'
import sys

import torch

if not torch.cuda.is_available():
    sys.exit("PyTorch does not see the GPU: its CUDA build and the driver do not fit")
torch.ones(8, device="cuda").sum().item()  # an unsupported architecture fails here, not in the middle of a run
PY
  then
    say "the GPU cannot be used: install a PyTorch that fits the driver, then run this again" >&2
    exit 1
  fi
  say "the GPU works"
else
  say "no GPU here: runs that need none are served"
fi

[ "${PODFLEET_PREPARE_ONLY:-}" = 1 ] || exec ./start_worker.sh "$@"
