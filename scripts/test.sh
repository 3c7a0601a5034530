#!/usr/bin/env bash
# The Python tests. Without arguments all of them, in two lanes side by side: end to end (mostly waiting for servers to
# start), and the rest. With arguments, what pytest makes of them.
set -uo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
if [ "$#" -gt 0 ]; then
    exec $python -m pytest "$@"
fi
# Job control, or the shell would start the lane with SIGINT ignored, which tests of Ctrl-C would inherit.
set -m
log=$(mktemp)
trap 'kill $(jobs -p) 2>/dev/null; rm -f "$log"' EXIT
$python -m pytest -p no:cacheprovider tests/unit tests/scheduler >"$log" 2>&1 &
rest=$!
$python -m pytest tests/e2e
end_to_end=$?
wait "$rest"
rest=$?
echo "unit and scheduler tests"
cat "$log"
exit $((end_to_end != 0 || rest != 0))
