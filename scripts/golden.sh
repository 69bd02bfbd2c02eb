#!/usr/bin/env bash
# Makes the goldens under tests/data again, with the pinned versions of the references (scripts/goldens/requirements.txt,
# llama.cpp from scripts/build-llama-cpp.sh) in a virtual environment of its own under build/. Takes about half an hour.
# `git diff --stat tests/data` then shows whether anything changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=build/venv-goldens
[ -d "$venv" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet -r scripts/goldens/requirements.txt

build/dspark pull smollm2-135m >/dev/null
model=$(build/dspark models --path smollm2-135m)
llama_cpp=$(scripts/build-llama-cpp.sh)

golden() {
  echo "golden: $1"
  "$venv/bin/python" "scripts/goldens/$1" "${@:2}"
}
golden formats.py
golden gguf_files.py
golden safetensors_files.py
golden models.py
golden training.py
golden quantised.py --llama-quantize "$llama_cpp/llama-quantize"
golden drafters.py
golden templates.py
golden tokenizer_goldens.py "$model"
golden smollm2.py "$model"
golden check_greedy.py "$model"
