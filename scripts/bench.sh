#!/usr/bin/env bash
# Measures and simulates everything that the paper and the report quote, into bench/results, then writes both.
# Arguments: names of steps to run instead of all of them, as in `bash scripts/bench.sh ranks readme`.
set -euo pipefail
cd "$(dirname "$0")/.."
export OMP_NUM_THREADS=1
export VLLM_LOGGING_LEVEL="${VLLM_LOGGING_LEVEL:-ERROR}"
python=.venv/bin/python
chosen=" $* "
radixflow() { $python -m radixflow.cli "$@"; }

# step NAME COMMAND...: runs it if it is wanted, and says how long it took.
step() {
    local name=$1 start=$SECONDS
    shift
    if [ "$chosen" != "  " ] && [[ "$chosen" != *" $name "* ]]; then return 0; fi
    echo "[bench] $name ..."
    "$@" --name "$name" >"$logs/$name.log" 2>&1 || {
        echo "[bench] $name failed:"
        tail -30 "$logs/$name.log"
        touch "$logs/failed"
        return 0
    }
    echo "[bench] $name: $((SECONDS - start)) s"
}

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# Simulations don't mind each other: two lanes.
first_lane() {
    step laboratory radixflow simulate --arms stock,gather,radixflow,planned --workloads short,long,burst \
        --concurrency 1,8,32 --seeds 1,2,3
    step workloads radixflow simulate --arms stock,planned --workloads nested,tenants,hot-cold,decode,one-branch \
        --geometries gdn-528,mamba2-400,attention-16 --concurrency 8 --decisions 32 --seeds 1,2
    step open-jev-2b radixflow simulate --reproduce open-jev-2b
    step waiting radixflow simulate scale --sizes "" --waiting 100,1000,10000,100000
}
second_lane() {
    step attribution radixflow simulate attribution --seeds 1,2,3 --geometries gdn-528,gdn-64
    step ranks radixflow simulate ranks
    step scale radixflow simulate scale --arms planned --sizes 1000,10000,100000 --waiting ""
}
second_lane &
first_lane
wait

# Real engines want the machine to themselves.
step simulation-check $python bench/simulation_check.py
step families $python bench/families.py --quick
step readme radixflow bench --arms stock,radixflow,planned --concurrency 1,8 --decisions 12 --repeats 5 --fresh

[ ! -e "$logs/failed" ]
$python paper/generate.py
make report
