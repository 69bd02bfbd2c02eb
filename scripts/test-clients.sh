#!/usr/bin/env bash
# Runs clients that others wrote against `dspark serve` with the default model: the openai library, guidellm and aiperf,
# from PyPI, each in an environment of its own under ${XDG_CACHE_HOME:-~/.cache}/dspark-clients.
# Usage: scripts/test-clients.sh [openai|guidellm|aiperf ...]   (without names: all)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cache=${XDG_CACHE_HOME:-$HOME/.cache}/dspark-clients
dspark=$PWD/build/dspark
"$dspark" pull smollm2-135m >/dev/null
model=$("$dspark" models --path smollm2-135m)
[ $# -gt 0 ] || set -- openai guidellm aiperf

environment() {  # a folder with the package installed
  local folder=$cache/$1
  if [ ! -x "$folder/bin/python" ] || ! "$folder/bin/python" -m pip show -q "$1" 2>/dev/null; then
    python3 -m venv "$folder"
    "$folder/bin/python" -m pip install -q "$1"
  fi
  echo "$folder"
}

for client in "$@"; do
  echo "client: $client"
  folder=$(environment "$client")
  case $client in
    openai) "$folder/bin/python" tests/clients/openai_test.py "$dspark" "$model" ;;
    guidellm | aiperf) python3 tests/clients/load_tools.py "$client" "$folder/bin/$client" "$dspark" "$model" ;;
    *) echo "no client '$client'; there are openai, guidellm and aiperf" >&2; exit 2 ;;
  esac
done
