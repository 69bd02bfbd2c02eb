#!/usr/bin/env bash
# The checks that need no test run (`make check`): format, includes and file openers, symbols of the instruction-set
# files, alert rules, the systemd unit, and clang-tidy on the files that differ from the base (DSPARK_CHECK_BASE, default origin/main), or with
# CHECK_ALL=1 on all of them (about 20 s of one core a file).
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

echo "check: alert rules"
promtool check rules deploy/alerts.yml >/dev/null
promtool test rules deploy/alerts_test.yml >/dev/null

echo "check: systemd unit"
unit=$(mktemp -d)
trap 'rm -rf "$unit"' EXIT
# With a program that is there; its flags have a test (operator_test.py). A complaint need not be an error to systemd.
sed 's#^ExecStart=[^ ]*#ExecStart=/bin/true#' deploy/dspark.service >"$unit/dspark.service"
said=$(systemd-analyze verify --man=no "$unit/dspark.service" 2>&1) && [ -z "$said" ] || { echo "$said" >&2; exit 1; }

if [ "${CHECK_ALL:-}" = 1 ]; then
  mapfile -t linted < <(git ls-files --cached --others --exclude-standard 'src/*.cc')
else
  base=$(git merge-base HEAD "${DSPARK_CHECK_BASE:-origin/main}" 2>/dev/null || git rev-parse HEAD)
  mapfile -t linted < <({ git diff --name-only --diff-filter=d "$base" -- 'src/*.cc'
    git ls-files --others --exclude-standard 'src/*.cc'; } | sort -u)
fi
if [ ${#linted[@]} -gt 0 ]; then
  echo "check: clang-tidy on ${#linted[@]} files"
  # clang does not know g++'s flags.
  mkdir -p build/tidy
  sed -E 's/ -m(move|store)-max=[0-9]+//g; s/ -Wno-maybe-uninitialized//g' build/compile_commands.json \
    >build/tidy/compile_commands.json
  printf '%s\0' "${linted[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p build/tidy --warnings-as-errors='*' \
    2> >(grep -v 'warnings generated' >&2)
fi
echo "check: ok"
