#!/usr/bin/env bash
# The checks that need no test run (`make check`): format, includes and file openers, symbols of the instruction-set
# files, and clang-tidy on the files that differ from the base (DSPARK_CHECK_BASE, default origin/main).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mapfile -t sources < <(git ls-files --cached --others --exclude-standard 'src/*.cc' 'src/*.h' 'src/*.inl')

echo "check: format of ${#sources[@]} files"
clang-format --dry-run -Werror "${sources[@]}"

echo "check: includes and openers"
scripts/check-includes.py

echo "check: instruction-set symbols"
cmake --build --preset release --target dspark_kernels >/dev/null
scripts/check-isa-symbols.sh build

base=$(git merge-base HEAD "${DSPARK_CHECK_BASE:-origin/main}" 2>/dev/null || git rev-parse HEAD)
mapfile -t changed < <(git diff --name-only --diff-filter=d "$base" -- 'src/*.cc')
if [ ${#changed[@]} -gt 0 ]; then
  echo "check: clang-tidy on ${#changed[@]} changed files"
  printf '%s\0' "${changed[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p build --warnings-as-errors='*' \
    2> >(grep -v 'warnings generated' >&2)
fi
echo "check: ok"
