// The subcommands of `dspark`, one row each. Constant data.
#include <array>

#include "tools/command.h"

namespace dspark {
namespace {

constexpr std::array kCommands = std::to_array<CommandSpec>({
    {.id = Command::kRun,
     .summary = "answer a prompt, or chat",
     .operands = "",
     .min_operands = 0,
     .max_operands = 0,
     .details = "One answer to -p TEXT, -f FILE or what a pipe brings; on a terminal without them a chat, where Ctrl-C "
                "stops an answer and Ctrl-D leaves. The tokens depend on the model, the prompt, the flags under which "
                "they are drawn and the seed, not on threads, chunks or CPU. --json prints one object with text and "
                "tokens when the answer is done.",
     .example = "dspark run -p \"Why is the sky blue?\" --temp 0",
     .run = cmd_run},
    {.id = Command::kServe,
     .summary = "answer many clients over HTTP, as OpenAI's API has it",
     .operands = "",
     .min_operands = 0,
     .max_operands = 0,
     .details = "Chat, completions, embeddings, models, health and metrics; docs/server.md tells all. Requests are "
                "computed together, and each gets the tokens that it would get alone. SIGTERM or Ctrl-C lets running "
                "requests end and refuses new ones; a second one ends at once.",
     .example = "dspark serve -m smollm2-135m --port 8000",
     .run = cmd_serve},
    {.id = Command::kCacheStats,
     .summary = "ask a running server how its KV cache is used",
     .operands = "[URL]",
     .min_operands = 0,
     .max_operands = 1,
     .details = "URL is http://HOST:PORT; without it the server of the settings --host and --port. A server with keys "
                "wants one with the right \"admin\", in DSPARK_API_KEY. --json prints all that the server says.",
     .example = "dspark cache-stats --port 8000",
     .run = cmd_cache_stats},
    {.id = Command::kCheckEnv,
     .summary = "check whether machine, model and drafter will do, and how fast they should be",
     .operands = "",
     .min_operands = 0,
     .max_operands = 0,
     .details =
         "CPU, cores, memory and its bandwidth, limits, model and drafter; then a trial of some seconds tells what "
         "steps take and how many guesses are right, and from both what to expect with 1 to 96 clients, with and "
         "without DSpark. Exit code 1 if something will not work.",
     .example = "dspark check-env -m smollm2-135m",
     .run = cmd_check_env},
    {.id = Command::kDebug,
     .summary = "one small answer, stage by stage, and why nothing is guessed if nothing is",
     .operands = "",
     .min_operands = 0,
     .max_operands = 0,
     .details =
         "Model, drafters, cache, the cost of steps, calibration, the first drafts with their survival and "
         "outcome; at the end the reason by name if guesses bring nothing. --prompt-len repeats the prompt to that "
         "length, --batch computes so many of them at once. 64 tokens at temperature 0 unless flags say otherwise.",
     .example = "dspark debug -p \"Write a loop in Python.\"",
     .run = cmd_debug},
    {.id = Command::kTune,
     .summary = "which settings would have served a recorded log best on this machine",
     .operands = "",
     .min_operands = 0,
     .max_operands = 0,
     .details =
         "Replays the arrival times, lengths, shared prefixes and, with --log-prompts, texts of --access-log, tries "
         "memory, step budget, inter-token target, policy, shards and, where the log has texts, threshold, draft cap "
         "and window, one after the other against the best so far, and recommends what is better beyond the noise. "
         "--out FOLDER gets a configuration file, a warm-up file of the most frequent prompts, and all numbers. Flags "
         "say what "
         "today's settings are.",
     .example = "dspark tune --access-log access.jsonl --minutes 5 --out tuned",
     .run = cmd_tune},
    {.id = Command::kTop,
     .summary = "watch a running server: requests, speeds, guesses, steps, cache",
     .operands = "[URL]",
     .min_operands = 0,
     .max_operands = 1,
     .details = "URL is http://HOST:PORT; without it the server of the settings --host and --port. A server with keys "
                "wants one with the right \"metrics\", in DSPARK_API_KEY. Ctrl-C leaves.",
     .example = "dspark top --port 8000",
     .run = cmd_top},
    {.id = Command::kTokenize,
     .summary = "text to tokens and back",
     .operands = "",
     .min_operands = 0,
     .max_operands = 0,
     .details = "Reads standard input byte for byte, or -f FILE. Works on a file that holds only a vocabulary, too. "
                "--detokenize turns numbers into the text that they came from.",
     .example = "echo -n 'Hello world' | dspark tokenize --json",
     .run = cmd_tokenize},
    {.id = Command::kTemplate,
     .summary = "render a conversation with a chat template",
     .operands = "",
     .min_operands = 0,
     .max_operands = 0,
     .details = "Prints the prompt and nothing else. With --template FILE the texts of BOS and EOS are empty unless -m "
                "names a model, too.",
     .example = "echo '[{\"role\": \"user\", \"content\": \"Hi\"}]' | dspark template",
     .run = cmd_template},
    {.id = Command::kScore,
     .summary = "log-probability of each token of a text, perplexity, digest of all logits",
     .operands = "",
     .min_operands = 0,
     .max_operands = 0,
     .details = "The digest is the SHA-256 over the bits of all logits: equal digests are equal computations, whatever "
                "the threads, chunks and instruction sets were.",
     .example = "dspark score -f README.md --json",
     .run = cmd_score},
    {.id = Command::kInspect,
     .summary = "show a model file: metadata, tensors, sizes, and how it would be used",
     .operands = "[MODEL]",
     .min_operands = 0,
     .max_operands = 1,
     .details = "MODEL may stand without -m here.",
     .example = "dspark inspect -m smollm2-135m",
     .run = cmd_inspect},
    {.id = Command::kPull,
     .summary = "fetch a model, and print where it lies",
     .operands = "MODEL",
     .min_operands = 1,
     .max_operands = 1,
     .details = "MODEL is a name that `dspark models` lists or a URL of a GGUF file, with #sha256=HEX behind it if it "
                "should be checked. What an interrupted fetch has completed is kept for the next. Models lie under "
                "$XDG_CACHE_HOME/dspark/models (~/.cache/dspark/models).",
     .example = "dspark pull smollm2-135m",
     .run = cmd_pull},
    {.id = Command::kModels,
     .summary = "list the models known by name",
     .operands = "",
     .min_operands = 0,
     .max_operands = 0,
     .details = "",
     .example = "dspark models --path smollm2-135m",
     .run = cmd_models},
    {.id = Command::kBench,
     .summary = "measure this machine and what dspark reaches on it",
     .operands = "decode|prefill|requests|speculation|sweep|replay|kernels",
     .min_operands = 1,
     .max_operands = 1,
     .details = "decode: steps of one new token for each of --batch sequences, or with --rows steps of several rows of "
                "one sequence. prefill: a prompt. requests: whole requests at once, as the server runs them. "
                "speculation: answers to --prompts for numbers of --clients, each of the --modes in turn. sweep: "
                "servers with OpenAI's "
                "API under load, for numbers of --clients; report and plots go to --out. replay: the "
                "requests of an --access-log at the times they came, on these settings. kernels: "
                "matrix products from the first-level cache, against the "
                "peak that loops in registers reach, and the bandwidth of memory.",
     .example = "dspark bench decode --threads 2",
     .run = cmd_bench},
    {.id = Command::kSynth,
     .summary = "write a model of random weights in the shape of a published one",
     .operands = "OUT.gguf",
     .min_operands = 1,
     .max_operands = 1,
     .details = "For measuring speed and memory at sizes whose weights are not at hand. Rows that do not divide into "
                "the type's blocks get the type that llama-quantize would give them; llama.cpp loads the file, too.",
     .example = "dspark synth --shape qwen3-4b --type q4_k qwen3-4b-random.gguf",
     .run = cmd_synth},
    {.id = Command::kSim,
     .summary = "what planned verification is worth on a machine, by simulation",
     .operands = "",
     .min_operands = 0,
     .max_operands = 0,
     .details = "Drives the scheduler's own code with a virtual clock: off, a fixed block, planned, and an oracle that "
                "knows each drafted token's true chance meet the same drafts. The models of survival are independent "
                "(all tokens alike), spread (chances from a beta distribution) and traces (recorded ones); the planner "
                "sees calibrated guesses of them.",
     .example = "dspark sim --curve deepinfer",
     .run = cmd_sim},
    {.id = Command::kConvertDrafter,
     .summary = "write a drafter as GGUF, from DeepSpec's folder or another GGUF",
     .operands = "DRAFTER OUT.gguf",
     .min_operands = 2,
     .max_operands = 2,
     .details = "-m names the model that the drafter is for: it is checked against it, and its digest and tokenizer go "
                "into the file. A drafter with a Markov head and nothing that is ours alone runs in llama.cpp, too; "
                "what stands against it is said (docs/drafter.md).",
     .example = "dspark convert-drafter -m qwen3-4b.gguf --quantize q8_0 Qwen3-4B-DSpark qwen3-4b-dspark.gguf",
     .run = cmd_convert_drafter},
    {.id = Command::kData,
     .summary = "generate what a drafter is trained on",
     .operands = "generate OUT.jsonl",
     .min_operands = 2,
     .max_operands = 2,
     .details = "Answers of the model to the prompts of the sources file are appended to OUT.jsonl as they complete; "
                "call it again to go on after an interruption. Prompts that repeat or overlap with evaluation prompts "
                "are dropped. OUT.jsonl.manifest.json records sources, licences, seeds and the model's digest.",
     .example = "dspark data generate answers.jsonl --data-folder ../shared/data",
     .run = cmd_data},
    {.id = Command::kTrain,
     .summary = "train a drafter for a model",
     .operands = "FOLDER",
     .min_operands = 1,
     .max_operands = 1,
     .details = "Checkpoints, evaluations (log.jsonl) and the drafter (drafter.gguf) go to FOLDER; call it again to go "
                "on after Ctrl-C or a crash. The same recipe, data and seed give the same bits, interrupted or not.",
     .example = "dspark train drafter --data answers.jsonl --recipe training/lookup.json",
     .run = cmd_train},
    {.id = Command::kEval,
     .summary = "how good a drafter is, on prompts",
     .operands = "",
     .min_operands = 0,
     .max_operands = 0,
     .details =
         "The model answers the prompts while its drafter guesses: tau (tokens for each step of the model) on all "
         "text and on fresh text, acceptance by place in the draft, and how true the foretold chances are. "
         "Without other flags the DSpark drafter alone drafts, and its whole block is verified.",
     .example = "dspark eval --prompts gsm8k.jsonl --prompts mbpp.jsonl --limit 50 --temp 0",
     .run = cmd_eval},
    {.id = Command::kCalibrate,
     .summary = "fit a drafter's confidences to what comes true",
     .operands = "",
     .min_operands = 0,
     .max_operands = 0,
     .details =
         "The model answers the prompts while the drafter guesses; every second prompt is fitted to, and the error "
         "of the foretold survival before and after is that of the others. Where it has become smaller, the "
         "temperatures are written beside the drafter, which reads them from then on.",
     .example = "dspark calibrate --prompts prompts.jsonl --drafter drafter.gguf",
     .run = cmd_calibrate},
    {.id = Command::kProve,
     .summary = "show on this machine that nothing but model, prompt and seed decides a token",
     .operands = "",
     .min_operands = 0,
     .max_operands = 0,
     .details = "Runs prompts, greedy and seeded, over every axis that must not matter: guessing, batch, chunks, "
                "threads, instruction sets, cache hits, preemption. Tokens and log-probabilities must have the bits of "
                "plain decoding, one request at a time; the first difference ends it with code 1 and names the axis "
                "and the place. So does a case that did not happen, such as one of preemption in which nothing was "
                "preempted.",
     .example = "dspark prove -m smollm2-135m --quick",
     .run = cmd_prove},
    {.id = Command::kConfig,
     .summary = "show the effective settings and their sources; those of a running server, too",
     .operands = "[NAME | get [NAME] | set NAME=VALUE... | rollback VERSION]",
     .min_operands = 0,
     .max_operands = 64,
     .details =
         "Takes every setting as a flag too, so that a command line, the environment and the file can be checked "
         "before they are used. With NAME: that setting alone, with its description. get, set and rollback speak to "
         "the server that --host and --port name; with keys it wants one with the right \"admin\", in DSPARK_API_KEY. "
         "set checks all values together; they hold from the server's next step on.",
     .example = "dspark config set dflash_window_size=1024 --dry-run",
     .run = cmd_config},
});

}  // namespace

std::span<const CommandSpec> commands() { return kCommands; }

ExitCode exit_code_for(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kTooLong:
      return ExitCode::kUsage;
    case ErrorCode::kNotFound:
    case ErrorCode::kCorrupt:
      return ExitCode::kBadFile;
    case ErrorCode::kUnsupported:
      return ExitCode::kUnsupported;
    case ErrorCode::kExhausted:
      return ExitCode::kExhausted;
    case ErrorCode::kCancelled:
      return ExitCode::kInterrupted;
    case ErrorCode::kBusy:
    case ErrorCode::kUnavailable:
    case ErrorCode::kDeadline:
    case ErrorCode::kInternal:
      return ExitCode::kFailure;
  }
  return ExitCode::kFailure;
}

}  // namespace dspark
