#!/usr/bin/env bash
# Build the extension module into the clone's overlay: one abi3 wheel, installed in place.
set -euo pipefail
cd "$(dirname "$0")/.."
base=$(cat .venv/.base)
echo "[build] Rust extension module (a minute the first time)" >&2
rm -f python/radixflow/_index*.so
VIRTUAL_ENV="$PWD/.venv" PATH="$(dirname "$base"):$PATH" "$(dirname "$base")/maturin" develop --release --quiet 2>&1 |
    grep -vE "^(Ignoring|Requirement already|$)" >&2 || true
.venv/bin/python -c 'import radixflow._index' || {
    echo "[build] the extension module did not build; run 'cargo build --features python' to see why" >&2
    exit 1
}
