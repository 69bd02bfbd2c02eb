#!/usr/bin/env bash
# Builds every *_fuzz.cc with libFuzzer and runs each for FUZZ_SECONDS (default 600) from its corpus in
# tests/fuzz/<target>. New inputs and crashing ones stay under build-fuzz/; a finding ends the script with an error.
#   scripts/fuzz.sh [TARGET...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  mapfile -t targets < <(find src -name '*_fuzz.cc' -printf '%f\n' | sed 's/\.cc$//' | sort)
fi
[ ${#targets[@]} -gt 0 ] || { echo "fuzz: there are no *_fuzz.cc under src" >&2; exit 1; }

cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target "${targets[@]}"
for target in "${targets[@]}"; do
  [ -d "tests/fuzz/$target" ] || { echo "fuzz: $target has no corpus; put a few inputs into tests/fuzz/$target" >&2; exit 1; }
  found="build-fuzz/found/$target"
  mkdir -p "$found/corpus"
  echo "fuzz: $target for ${FUZZ_SECONDS:-600} s"
  "build-fuzz/$target" -max_total_time="${FUZZ_SECONDS:-600}" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
    -artifact_prefix="$found/" "$found/corpus" "tests/fuzz/$target" 2>"$found/log" ||
    { tail -n 40 "$found/log" >&2; echo "fuzz: $target found something: $found" >&2; exit 1; }
  grep -E 'stat::number_of_executed_units|DONE' "$found/log"
done
echo "fuzz: ${#targets[@]} targets, no finding"
