#!/usr/bin/env bash
# Prints the tables of docs/formats.md: the quantisers beside GGML's, one thread.
#   scripts/bench-formats.sh [LIBGGML_BASE_SO]   (default: the newest llama.cpp that bench-peers built)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

library=${1:-$(ls -d "${XDG_CACHE_HOME:-$HOME/.cache}"/dspark-peers/llama.cpp-*/bin/libggml-base.so 2>/dev/null | sort -V | tail -1)}
if [ -z "$library" ]; then
  echo "bench-formats: no llama.cpp under ${XDG_CACHE_HOME:-$HOME/.cache}/dspark-peers; run 'make bench-peers' or name libggml-base.so" >&2
  exit 1
fi
cmake --preset release >/dev/null
cmake --build --preset release --target formats_benchmark >/dev/null
exec build/formats_benchmark "$library"
