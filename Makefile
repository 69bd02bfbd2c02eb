# The project's commands. Each installs what it needs, so a fresh Debian 12 machine needs only git and make.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.PHONY: build run test test-all test-clients test-page test-deploy check bench bench-peers bench-serve bench-spec bench-claims bench-sweep bench-tune soak asan tsan golden fuzz help packages packages-dev configure

FUZZ_SECONDS ?= 600
PROMPTS ?= ../shared/data/prompts
PROMPT ?=
export PROMPT
SAMPLES = 'Explain in three sentences why the sky is blue.' \
  'Write a Python function that returns the n-th Fibonacci number.' \
  'A train goes 60 km in 45 minutes. How fast is it in km/h?'

packages:
	@scripts/install-packages.sh

packages-dev:
	@scripts/install-packages.sh scripts/packages.txt scripts/packages-dev.txt

configure: packages
	@cmake --preset release >/dev/null

build: configure  ## build the command; it is then at build/dspark
	@cmake --build --preset release --target dspark

run: build  ## fetch the default model, answer three prompts (or PROMPT="...") with DSpark, and compare with plain decoding
	@build/dspark pull smollm2-135m
	@if [ -n "$$PROMPT" ]; then set -- "$$PROMPT"; else set -- $(SAMPLES); fi; \
	for prompt; do \
	  echo; echo "> $$prompt"; \
	  build/dspark run -p "$$prompt" --temp 0 --max-tokens 256 --compare; \
	done

test: configure  ## build and run all tests, those on the real default model included
	@cmake --build --preset release
	@build/dspark pull smollm2-135m
	@DSPARK_TEST_MODEL="$$(build/dspark models --path smollm2-135m)" \
	  ctest --test-dir build --output-on-failure --no-tests=error -j2

test-clients: build  ## run the openai client, guidellm and aiperf (from PyPI) against the server
	@scripts/test-clients.sh

test-page: build  ## test the server's page in Debian's chromium, driven by Playwright (from PyPI)
	@scripts/test-page.sh

test-deploy: packages-dev build  ## try the container file's last stage in a fresh Debian (root and debootstrap; two minutes)
	@scripts/test_deploy.py

test-all: export DSPARK_TEST_LONG = 1
test-all: check test test-clients test-page asan tsan  ## all of check, test (with the long comparisons), asan and tsan

check: packages-dev configure  ## format, includes, file openers, instruction-set leaks, clang-tidy on changed files (CHECK_ALL=1: on all)
	@scripts/check.sh

bench: build  ## measure this machine: decode, prefill and the kernels
	@build/dspark pull smollm2-135m
	@for what in decode prefill kernels; do build/dspark bench "$$what"; done

bench-peers: build  ## measure against llama.cpp on the same files; writes docs/benchmarks/
	@scripts/bench_peers.py

bench-spec: build  ## measure what guessing ahead brings, 1 to 96 clients (PROMPTS=../shared/data/prompts); writes docs/benchmarks/
	@scripts/bench_spec.py --prompts "$(PROMPTS)" $(BENCH_SPEC)

bench-serve: build  ## measure the server against llama-server, 1 to 96 clients (PROMPTS=../shared/data/prompts); writes docs/benchmarks/
	@scripts/bench_serve.py --prompts "$(PROMPTS)" $(BENCH_SERVE)

bench-claims: build  ## measure what docs/claims.md says of a server under load (PROMPTS=..., BENCH_CLAIMS="--full"), 14 minutes; writes docs/benchmarks/
	@scripts/bench_claims.py --prompts "$(PROMPTS)" $(BENCH_CLAIMS)

bench-sweep: build  ## measure no, five and planned guesses and llama-server, 8 to 96 clients (PROMPTS=..., BENCH_SWEEP="--rounds 1"), 25 minutes; writes docs/benchmarks/
	@scripts/bench_sweep_peers.py --prompts "$(PROMPTS)" $(BENCH_SWEEP)

bench-tune: build  ## whether tune finds what was made bad on purpose, against a grid (PROMPTS=..., BENCH_TUNE="--only memory"), 15 minutes; writes docs/benchmarks/
	@scripts/tune_grid.py --prompts "$(PROMPTS)" $(BENCH_TUNE)

soak: build  ## ten minutes at 96 clients that hang up at random: no leak, nothing stuck (SOAK="--seconds 60", see scripts/soak.py)
	@scripts/soak.py $(SOAK)

asan: packages  ## the unit tests under AddressSanitizer and UndefinedBehaviorSanitizer
tsan: packages  ## the unit tests under ThreadSanitizer
asan tsan:
	@cmake --preset $@ >/dev/null
	@cmake --build --preset $@
	@ctest --test-dir build-$@ --output-on-failure --no-tests=error -j2

golden: build  ## make the goldens under tests/data again, with pinned versions of the references
	@scripts/golden.sh

fuzz: packages-dev  ## each fuzz target for FUZZ_SECONDS=600 over its corpus in tests/fuzz
	@FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/fuzz.sh

help:  ## this text
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
