#!/usr/bin/env python3
"""A load generator that others wrote against `dspark serve`: it must run to its end, without a failed request.

    tests/clients/load_tools.py guidellm|aiperf TOOL build/dspark MODEL
"""

import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import serving  # noqa: E402

REQUESTS = 12


def guidellm(tool, server, tokenizer, folder):
    report_file = pathlib.Path(folder) / "report.json"
    command = [tool, "run", "--backend", f"kind=openai_http,target=http://127.0.0.1:{server.port},model=tiny", "--profile",
               "kind=concurrent,streams=4", "--constraint", f"kind=max_requests,count={REQUESTS}", "--tokenizer",
               f"kind=hf_auto,model={tokenizer}", "--data", "kind=synthetic_text,prompt_tokens=64,output_tokens=24",
               "--output", f"kind=json,path={report_file}", "--disable-console"]
    subprocess.run([str(c) for c in command], check=True, timeout=900, env=serving.environment(folder) |
                   {"HF_HUB_OFFLINE": "1"})
    report = json.loads(report_file.read_text())
    totals = report["benchmarks"][0]["metrics"]["request_totals"]
    return totals["successful"], totals["errored"]


def aiperf(tool, server, tokenizer, folder):
    command = [tool, "profile", "--model", "tiny", "--url", f"http://127.0.0.1:{server.port}", "--endpoint-type", "chat",
               "--streaming", "--tokenizer", tokenizer, "--concurrency", "4", "--request-count", str(REQUESTS),
               "--synthetic-input-tokens-mean", "64", "--output-tokens-mean", "24", "--artifact-dir", folder, "--ui",
               "simple"]
    # Not offline: then it looks for a folder's tokenizer in the hub's cache only.
    subprocess.run([str(c) for c in command], check=True, timeout=900, env=serving.environment(folder))
    report = json.loads(next(pathlib.Path(folder).rglob("profile_export_aiperf.json")).read_text())
    return int(report["request_count"]["avg"]), int((report.get("error_request_count") or {"avg": 0})["avg"])


def main():
    name, tool, command, model = sys.argv[1:]
    # A tokenizer that needs no network: they only count with it.
    tokenizer = serving.ROOT / "tests/data/models/qwen3/hf"
    with tempfile.TemporaryDirectory() as folder, serving.Server(command, model=model, memory="1GiB") as server:
        good, bad = {"guidellm": guidellm, "aiperf": aiperf}[name](tool, server, tokenizer, folder)
        answered = server.metric("vllm:request_success_total")
        print(f"{name}: {good} requests answered, {bad} failed; the server counts {answered:.0f}")
        if bad or good < REQUESTS or answered < good:
            sys.exit(f"expected {REQUESTS} answers and no failure")
        server.wait_until_idle()


if __name__ == "__main__":
    main()
