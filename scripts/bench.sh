#!/usr/bin/env bash
# Measures and simulates everything that the paper and the report quote, into bench/results, then writes both.
set -euo pipefail
cd "$(dirname "$0")/.."
export OMP_NUM_THREADS=1
radixflow() { .venv/bin/python -m radixflow.cli "$@"; }

radixflow simulate --arms stock,gather,radixflow,planned --workloads short,long,burst --concurrency 1,8,32 \
    --seeds 1,2,3 --name laboratory
radixflow simulate --arms stock,planned --workloads nested,tenants,hot-cold,decode,one-branch \
    --geometries gdn-528,mamba2-400,attention-16 --concurrency 8 --decisions 32 --seeds 1,2 --name workloads
radixflow simulate attribution --seeds 1,2,3 --geometries gdn-528,gdn-64 --name attribution
radixflow simulate --reproduce open-jev-2b --name open-jev-2b
radixflow simulate ranks --name ranks
radixflow simulate scale --arms planned --sizes 1000,10000,100000 --waiting "" --name scale
radixflow simulate scale --sizes "" --waiting 100,1000,10000,100000 --name waiting
.venv/bin/python bench/simulation_check.py --name simulation-check
.venv/bin/python bench/families.py --quick --name families
radixflow bench --arms stock,radixflow,planned --concurrency 1,8 --decisions 12 --repeats 5 --name readme

.venv/bin/python paper/generate.py
make report
