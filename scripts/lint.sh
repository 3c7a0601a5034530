#!/usr/bin/env bash
# Every check that does not run the product. Each prints its name first, so a failure is easy to place.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
step() { echo "[lint] $*"; "$@"; }
step $python -m ruff format --check bench examples paper python scripts tests training
step $python -m ruff check bench examples paper python scripts tests training
step $python -m mypy
step $python -m mypy.stubtest radixflow._index
step $python -c 'import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())'
step cargo fmt --check
step cargo clippy --quiet --all-targets --all-features -- -D warnings
