#!/usr/bin/env bash
# Installs the Debian packages of the given lists (default: scripts/packages.txt) that are missing. Needs the network
# and root or sudo only when something is missing.
#   scripts/install-packages.sh [LIST...]
set -euo pipefail
export LC_ALL=C  # comm and sort must agree

folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -gt 0 ] || set -- "$folder/packages.txt"

if ! command -v dpkg-query >/dev/null; then
  echo "install-packages: this is not a Debian system; install what $* name by your own means" >&2
  exit 1
fi

mapfile -t wanted < <(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$@" | sort -u)
installed=$({ dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null || true; } |
  sed -n 's/^installed //p' | sort -u)
mapfile -t missing < <(comm -23 <(printf '%s\n' "${wanted[@]}") <(printf '%s\n' "$installed"))
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install-packages: missing: ${missing[*]}; install them as root, or install sudo" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "install-packages: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
