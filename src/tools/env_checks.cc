// See env_checks.h.
#include "tools/env_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>

#include "base/cpu.h"
#include "base/machine_memory.h"
#include "base/printable.h"
#include "kernels/isa.h"
#include "kernels/kernel_bench.h"
#include "kernels/kv_layout.h"
#include "model/model_digest.h"
#include "model/read_config.h"
#include "tools/compute.h"
#include "tools/model_choice.h"

namespace dspark {
namespace {

constexpr int64_t kBandwidthBytes = 64 << 20;
constexpr double kSlowMemory = 5e9;  // bytes a second, below which decoding will disappoint
constexpr rlim_t kFewFiles = 2048;   // a connection is a file
constexpr double kSmallBlocks = 16;  // blocks of KV that anything useful needs

// The value behind "name : " in a file like /proc/cpuinfo or /proc/meminfo; "" if there is none.
std::string field_of(const char* file, std::string_view name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::string first_line(const char* file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

EnvCheck check_isa(const Settings& settings) {
  std::vector<const char*> supported;
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
    if (isa_supported(isa)) supported.push_back(isa_name(isa));
  }
  const auto chosen = chosen_isa(settings);
  if (!chosen.ok()) return {"instruction set", CheckState::kFailure, chosen.error().message, "leave --isa out"};
  EnvCheck check = {"instruction set", CheckState::kOk,
                    fmt::format("{} is used; this CPU has {}", isa_name(*chosen), fmt::join(supported, ", "))};
  if (*chosen == Isa::kPortable) check.state = CheckState::kWarning, check.advice = "the portable kernels are slow";
  return check;
}

EnvCheck check_cores(const Settings& settings) {
  const int cores = usable_cores(), threads = pool_options(settings).threads;
  EnvCheck check = {"cores", CheckState::kOk, fmt::format("{} usable, {} threads compute", cores, threads)};
  if (threads > cores) {
    check.state = CheckState::kWarning;
    check.advice = fmt::format("more threads than cores slow each other down; --threads {}", cores);
  }
  return check;
}

EnvCheck check_load(const Settings& settings) {
  double load = 0.0;
  if (getloadavg(&load, 1) != 1) return {"load", CheckState::kOk, "not known"};
  EnvCheck check = {"load", CheckState::kOk, fmt::format("{:.1f} over the last minute", load)};
  if (load > 0.5 * pool_options(settings).threads) {
    check.state = CheckState::kWarning;
    check.advice = "others use this machine: what is measured here is less than it could be";
  }
  return check;
}

EnvCheck check_bandwidth(const Settings& settings) {
  ThreadPool pool(pool_options(settings));
  BandwidthMeter meter(pool, kBandwidthBytes);
  for (int i = 0; i < 3; ++i) meter.sample();
  EnvCheck check = {
      "memory bandwidth", CheckState::kOk,
      fmt::format("{:.1f} GB/s read by {} threads (64 MiB, caches included)", meter.best() / 1e9, pool.size())};
  if (meter.best() < kSlowMemory)
    check.state = CheckState::kWarning, check.advice = "decoding reads all weights for each step";
  return check;
}

EnvCheck check_huge_pages() {
  const std::string text = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  const size_t begin = text.find('['), end = text.find(']');
  if (begin == std::string::npos || end == std::string::npos) return {"huge pages", CheckState::kOk, "not known"};
  const std::string mode = text.substr(begin + 1, end - begin - 1);
  EnvCheck check = {"huge pages", CheckState::kOk, mode};
  if (mode == "never") {
    check.state = CheckState::kWarning;
    check.advice = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled saves address look-ups";
  }
  return check;
}

EnvCheck check_files(const Settings& settings) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {"open files", CheckState::kOk, "not known"};
  EnvCheck check = {"open files", CheckState::kOk, fmt::format("{} allowed", limit.rlim_cur)};
  const auto connections = static_cast<rlim_t>(settings.get<"max-connections">());
  if (limit.rlim_cur < std::min(kFewFiles, 2 * connections)) {
    check.state = CheckState::kWarning;
    check.advice = fmt::format("{} connections need as many files; ulimit -n 65536", connections);
  }
  return check;
}

// Weights and the least of a useful cache against the machine's memory.
EnvCheck check_room(const Settings& settings, const ModelFile& file, const ModelConfig& config, DType kv_type) {
  const int64_t memory = machine_memory_bytes();
  const int64_t asked = settings.get<"kv-memory">();
  const int64_t kv = asked > 0 ? asked : memory / 2;
  const auto weights = static_cast<int64_t>(file.tensors().file_bytes());
  const int64_t block = KvLayout{kv_type, config.kv_heads, config.head_dim}.tile_bytes() * config.layers;
  EnvCheck check = {"room", CheckState::kOk,
                    fmt::format("{:.2f} GB of weights and at most {:.2f} GB of KV ({} positions) in {:.2f} GB",
                                static_cast<double>(weights) / 1e9, static_cast<double>(kv) / 1e9,
                                kv / block * kTilePositions, static_cast<double>(memory) / 1e9)};
  if (weights + static_cast<int64_t>(kSmallBlocks) * block > memory || kv < block) {
    check.state = CheckState::kFailure;
    check.advice = "a smaller model, a smaller type (--quantize) or more memory";
  } else if (weights + kv > memory) {
    check.state = CheckState::kWarning;
    check.advice = "together they are more than there is; lower --kv-memory";
  }
  return check;
}

// What will guess, and whether it belongs to the model.
EnvCheck check_drafter(const EngineOptions& options, const ModelFile& file, const ModelConfig& config) {
  EnvCheck check = {"drafter"};
  if (!options.speculation.enabled || options.drafter.with == DraftWith::kNone) {
    check.found = "speculation is switched off";
    check.state = CheckState::kWarning;
    check.advice = "--enable-dspark auto --draft-with auto";
    return check;
  }
  if (options.drafter.with == DraftWith::kNgram) {
    check.found = "repetition in the text alone (--draft-with ngram)";
    return check;
  }
  const int threads = options.runner.threads;
  const auto digest = model_digest(file.tensors(), {.folder = options.runner.digest_folder}, threads, {});
  if (!digest.ok()) return {"drafter", CheckState::kFailure, digest.error().message, "check the model's file"};
  const auto chosen = choose_drafter(options.drafter, *digest, options.runner.digest_folder, threads);
  if (!chosen.ok()) return {"drafter", CheckState::kFailure, chosen.error().message, "another --drafter, or none"};
  if (!chosen->has_value()) {
    check.found = fmt::format("none was made for the model {}; repetition in the text alone guesses",
                              to_hex(*digest).substr(0, 16));
    check.state = CheckState::kWarning;
    check.advice = "train one (docs/training.md): `dspark data generate`, then `dspark train`";
    return check;
  }
  const DrafterFile& drafter = **chosen;
  const DsparkConfig& d = drafter.config;
  check.found = fmt::format("{}: {} layers, blocks of {}, features of target layers {}, vocabulary {} of {}",
                            drafter.file.tensors().path(), d.backbone.layers, d.block_size,
                            fmt::join(d.target_layers, ","), d.draft_vocab, config.vocab);
  if (const Status fits = check_target(d, config, *digest, drafter.file.tensors().path()); !fits.ok()) {
    check.state = CheckState::kFailure;
    check.advice = fits.error().message;
  }
  return check;
}

}  // namespace

std::string_view check_state_name(CheckState state) {
  switch (state) {
    case CheckState::kOk:
      return "ok";
    case CheckState::kWarning:
      return "warning";
    case CheckState::kFailure:
      return "failure";
  }
  return "";
}

std::vector<EnvCheck> machine_checks(const Settings& settings) {
  const std::string cpu = field_of("/proc/cpuinfo", "model name");
  std::vector<EnvCheck> out;
  out.push_back({"CPU", CheckState::kOk, cpu.empty() ? "not known" : printable(cpu)});
  out.push_back(check_isa(settings));
  out.push_back(check_cores(settings));
  out.push_back(check_load(settings));
  out.push_back({"memory", CheckState::kOk,
                 fmt::format("{:.2f} GB, available now: {}", static_cast<double>(machine_memory_bytes()) / 1e9,
                             printable(field_of("/proc/meminfo", "MemAvailable")))});
  out.push_back(check_bandwidth(settings));
  out.push_back(check_huge_pages());
  out.push_back(check_files(settings));
  return out;
}

std::vector<EnvCheck> model_checks(const Settings& settings) {
  std::vector<EnvCheck> out;
  const auto fail = [&](const char* name, const Error& error, const char* advice) {
    out.push_back({name, CheckState::kFailure, error.message, advice});
    return out;
  };
  const auto options = engine_options(settings);
  if (!options.ok()) return fail("model", options.error(), "`dspark models` lists those known by name");
  const auto file = ModelFile::open(options->model);
  if (!file.ok()) return fail("model", file.error(), "`dspark inspect` tells more");
  const auto config = read_model_config(*file);
  if (!config.ok()) return fail("model", config.error(), "this build cannot run it");
  out.push_back({"model", CheckState::kOk,
                 fmt::format("{}: {}, {} layers of {}, vocabulary {}, context {}", file->tensors().path(),
                             config->architecture, config->layers, config->hidden, config->vocab, config->context)});
  out.push_back(check_room(settings, *file, *config, options->runner.kv_type));
  out.push_back(check_drafter(*options, *file, *config));
  return out;
}

}  // namespace dspark
