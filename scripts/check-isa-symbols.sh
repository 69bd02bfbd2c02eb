#!/usr/bin/env bash
# An inline function compiled into an AVX-512 file is a weak symbol: the linker may keep that copy for everybody and
# crash older machines, or change bits. So the objects of *_avx2.cc and *_avx512.cc may define no weak symbol.
#   scripts/check-isa-symbols.sh BUILD_FOLDER
set -euo pipefail

allowed='^DW\.ref\.__gxx_personality_v0$'  # a pointer, no code
failed=0
checked=0
while IFS= read -r -d '' object; do
  weak=$(nm --defined-only --format=posix "$object" | awk '$2 ~ /^[WVuwv]$/ {print $1}' | grep -vE "$allowed" || true)
  if [ -n "$weak" ]; then
    echo "$object defines weak symbols; give what it uses internal linkage:" >&2
    c++filt <<<"$weak" | sed 's/^/  /' >&2
    failed=1
  fi
  checked=$((checked + 1))
done < <(find "$1" -regex '.*_avx\(2\|512\)\(_test\)?\.cc\.o' -print0)
[ $checked -gt 0 ] || { echo "check-isa-symbols: no objects under $1; build first" >&2; exit 1; }
exit $failed
