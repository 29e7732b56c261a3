#!/usr/bin/env bash
# Starts a worker on a pod that init_pod.sh has prepared; every argument is the worker's.
# exec, so that the signals of the pod's provider reach the worker itself, and its exit status whoever started this:
# 3 means that it was drained, or idle for its time, and is not to be started again.
set -euo pipefail
cd "$(dirname "$0")"
if [ ! -x .venv/bin/python ]; then
  echo "this pod is not prepared: run ./init_pod.sh once" >&2
  exit 2
fi
exec .venv/bin/python -m pod_worker "$@"
