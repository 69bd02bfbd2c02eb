// See env_checks.h.
#include "tools/env_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <charconv>
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
constexpr double kSlowMemory = 5e9;                  // bytes a second, below which decoding will disappoint
constexpr rlim_t kFewFiles = 2048;                   // a connection is a file
constexpr int64_t kSmallBlocks = 16;                 // blocks of KV that anything useful needs
constexpr rlim_t kLeastAddresses = rlim_t{1} << 30;  // bytes, for program, libraries, stacks and allocators alone

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

// "as --isa says", or `otherwise` where nobody said anything.
template <SettingName name>
std::string reason(const Settings& settings, const char* otherwise) {
  if (!settings.is_set<name>()) return otherwise;
  return fmt::format("as {} says", printable(settings.entry(setting_index(name.view())).origin));
}

EnvCheck check_isa(const Settings& settings) {
  std::vector<const char*> supported;
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
    if (isa_supported(isa)) supported.push_back(isa_name(isa));
  }
  const auto chosen = chosen_isa(settings);
  if (!chosen.ok()) return {"instruction set", CheckState::kFailure, chosen.error().message, "leave --isa out"};
  EnvCheck check = {"instruction set", CheckState::kOk,
                    fmt::format("{} is used, {}; this CPU has {}", isa_name(*chosen),
                                settings.get<"isa">() == "auto" ? "the best one" : reason<"isa">(settings, ""),
                                fmt::join(supported, ", "))};
  if (*chosen == Isa::kPortable) check.state = CheckState::kWarning, check.advice = "the portable kernels are slow";
  return check;
}

EnvCheck check_cores(const Settings& settings) {
  const int cores = usable_cores(), threads = pool_options(settings).threads;
  EnvCheck check = {"cores", CheckState::kOk,
                    fmt::format("{} usable, {} threads compute, {}", cores, threads,
                                settings.get<"threads">() == 0 ? "one for each" : reason<"threads">(settings, ""))};
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

rlim_t address_limit() {
  rlimit limit = {};
  return getrlimit(RLIMIT_AS, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

EnvCheck check_addresses() {
  const rlim_t limit = address_limit();
  if (limit == RLIM_INFINITY) return {"address space", CheckState::kOk, "not limited"};
  EnvCheck check = {"address space", CheckState::kOk,
                    fmt::format("{:.2f} GB allowed", static_cast<double>(limit) / 1e9)};
  if (limit < kLeastAddresses) {
    check.state = CheckState::kFailure;
    check.advice = "ulimit -v unlimited; it counts what is reserved and mapped, too";
  }
  return check;
}

EnvCheck check_bandwidth(const Settings& settings) {
  if (address_limit() < kLeastAddresses) return {"memory bandwidth", CheckState::kWarning, "not measured", "see above"};
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

// Bytes that can be had now without taking them from somebody; -1: not known.
int64_t available_bytes() {
  int64_t kib = -1;
  const std::string text = field_of("/proc/meminfo", "MemAvailable");
  if (std::from_chars(text.data(), text.data() + text.size(), kib).ec != std::errc()) return -1;
  return kib * 1024;
}

EnvCheck check_memory() {
  const int64_t available = available_bytes();
  return {"memory", CheckState::kOk,
          fmt::format("{:.2f} GB, available now: {}", static_cast<double>(machine_memory_bytes()) / 1e9,
                      available < 0 ? "not known" : fmt::format("{:.2f} GB", static_cast<double>(available) / 1e9))};
}

EnvCheck check_model_room(const Settings& settings, const ModelFile& file, const ModelConfig& config, DType kv_type) {
  const auto limit = static_cast<int64_t>(std::min<rlim_t>(address_limit(), rlim_t{1} << 62));
  const int64_t memory = std::min(machine_memory_bytes(), limit);
  const int64_t asked = settings.get<"kv-memory">();
  const int64_t block = KvLayout{kv_type, config.kv_heads, config.head_dim}.tile_bytes() * config.layers;
  const Room room = {.weights = static_cast<int64_t>(file.tensors().file_bytes()),
                     .kv = asked > 0 ? asked : machine_memory_bytes() / 2,
                     .block = block,
                     .memory = memory,
                     .available = available_bytes()};
  return check_room(room, reason<"kv-memory">(settings, "half of the memory"));
}

// Why this drafter, and by whose word it belongs to the model.
std::string drafter_reason(const EngineOptions& options, const DsparkConfig& drafter, const Sha256Digest& model) {
  const std::string digest = to_hex(model).substr(0, 16);
  if (options.drafter.file.empty()) return fmt::format("found, as it was made for the model {}", digest);
  if (!drafter.target_digest) return "named by --drafter, does not tell its model";
  return fmt::format("named by --drafter, made for the model {}", to_hex(*drafter.target_digest).substr(0, 16));
}

// What will guess, and whether it belongs to the model.
EnvCheck check_drafter(const EngineOptions& options, const Sha256Digest& digest, const ModelConfig& config) {
  EnvCheck check = {.name = "drafter", .found = ""};
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
  const auto chosen = choose_drafter(options.drafter, digest, options.runner.digest_folder, threads);
  if (!chosen.ok()) return {"drafter", CheckState::kFailure, chosen.error().message, "another --drafter, or none"};
  if (!chosen->has_value()) {
    check.found = fmt::format("none was made for the model {}; repetition in the text alone guesses",
                              to_hex(digest).substr(0, 16));
    check.state = CheckState::kWarning;
    check.advice = "train one (docs/training.md): `dspark data generate`, then `dspark train`";
    return check;
  }
  const DrafterFile& drafter = **chosen;
  const DsparkConfig& d = drafter.config;
  check.found = fmt::format("{}, {}: {} layers, blocks of {}, features of target layers {} of {}, vocabulary {} of {}",
                            drafter.file.tensors().path(), drafter_reason(options, d, digest), d.backbone.layers,
                            d.block_size, fmt::join(d.target_layers, ","), config.layers, d.draft_vocab, config.vocab);
  if (const Status fits = check_target(d, config, digest, drafter.file.tensors().path()); !fits.ok()) {
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

EnvCheck check_room(const Room& room, const std::string& why) {
  const auto gb = [](int64_t bytes) { return fmt::format("{:.2f} GB", static_cast<double>(bytes) / 1e9); };
  EnvCheck check = {"room", CheckState::kOk,
                    fmt::format("{} of weights and at most {} of KV ({} positions), {}, in {}", gb(room.weights),
                                gb(room.kv), room.kv / room.block * kTilePositions, why, gb(room.memory))};
  const int64_t least = room.weights + kSmallBlocks * room.block;
  if (least > room.memory || room.kv < room.block) {
    check.state = CheckState::kFailure;
    check.advice = "a smaller model, a smaller type (--quantize) or more memory";
  } else if (room.available >= 0 && least > room.available) {
    check.state = CheckState::kFailure;
    check.advice = fmt::format("others leave {}; end them, or take a smaller model", gb(room.available));
  } else if (room.weights + room.kv > room.memory) {
    check.state = CheckState::kWarning;
    check.advice = "together they are more than there is; lower --kv-memory";
  }
  return check;
}

std::vector<EnvCheck> machine_checks(const Settings& settings) {
  const std::string cpu = field_of("/proc/cpuinfo", "model name");
  std::vector<EnvCheck> out;
  out.push_back({"CPU", CheckState::kOk, cpu.empty() ? "not known" : printable(cpu)});
  out.push_back(check_isa(settings));
  out.push_back(check_cores(settings));
  out.push_back(check_load(settings));
  out.push_back(check_memory());
  out.push_back(check_addresses());
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
  const auto digest =
      model_digest(file->tensors(), {.folder = options->runner.digest_folder}, options->runner.threads, {});
  if (!digest.ok()) return fail("model", digest.error(), "check the model's file");
  out.push_back({"model", CheckState::kOk,
                 fmt::format("{}: {}, {} layers of {}, vocabulary {}, context {}, digest {}", file->tensors().path(),
                             config->architecture, config->layers, config->hidden, config->vocab, config->context,
                             to_hex(*digest).substr(0, 16))});
  out.push_back(check_model_room(settings, *file, *config, options->runner.kv_type));
  out.push_back(check_drafter(*options, *digest, *config));
  return out;
}

}  // namespace dspark
