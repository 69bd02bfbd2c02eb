// `dspark inspect`: what a model file holds, and how this build would use it. Main thread.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "kernels/kv_layout.h"
#include "model/model_file.h"
#include "model/read_config.h"
#include "model/weights.h"
#include "tools/command.h"
#include "tools/io.h"
#include "tools/model_choice.h"

namespace dspark {
namespace {

constexpr size_t kWidestName = 80;  // columns; longer names push the rest to the right

struct TypeTotal {
  int64_t tensors = 0;
  uint64_t bytes = 0;
  bool supported = false;
};

std::map<std::string, TypeTotal> totals_by_type(const TensorSource& source) {
  std::map<std::string, TypeTotal> totals;
  for (const TensorInfo& tensor : source.tensors()) {
    TypeTotal& total = totals[tensor.type_name];
    ++total.tensors;
    total.bytes += tensor.bytes;
    total.supported = tensor.type.has_value();
  }
  return totals;
}

std::span<const int64_t> shape_of(const TensorInfo& tensor) {
  return std::span(tensor.shape).first(static_cast<size_t>(tensor.rank));
}

std::string metadata_text(const ModelFile& file) {
  std::string out;
  if (const GgufFile* gguf = file.gguf()) {
    out += fmt::format("GGUF version {}, alignment {} bytes, {} metadata entries:\n", gguf->version(),
                       gguf->alignment(), gguf->metadata().size());
    for (const GgufEntry& entry : gguf->metadata()) {
      out += fmt::format("  {} = {}\n", printable(entry.key), format_gguf_value(entry));
    }
  } else {
    out += "Hugging Face folder, config.json:\n";
    for (const auto& [key, value] : file.hf()->config().items()) {
      out += fmt::format("  {} = {}\n", printable(key),
                         printable(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), 120));
    }
  }
  return out;
}

// Of either kind of file. Routers stay as they are when a model is quantised at load.
bool is_router(std::string_view name) {
  return name.ends_with(".ffn_gate_inp.weight") || name.ends_with(".mlp.gate.weight");
}

// How the loader takes a tensor.
std::string use_of(const TensorInfo& tensor, const std::string& quantize) {
  if (!tensor.type) return "refused: no kernel for this type";
  if (tensor.rank == 1) return "floats";
  const std::string what = tensor.rank == 3 ? "matrix of each expert" : "matrix";
  if (!is_float(*tensor.type)) return what + ", int8 activations";
  if (quantize == "none" || is_router(tensor.name)) return what + ", float activations";
  const int64_t k = tensor.shape[static_cast<size_t>(tensor.rank) - 1];
  const DType type = quantised_type(dtype_from_name(quantize).value(), *tensor.type, k);
  return fmt::format("{}, becomes {}", what, dtype_info(type).name);
}

int64_t kv_bytes_per_position(const ModelConfig& config, DType type) {
  return KvLayout{type, config.kv_heads, config.head_dim}.tile_bytes() * config.layers / kTilePositions;
}

std::string config_text(const ModelConfig& config, DType kv_type) {
  std::string out = fmt::format(
      "This build runs it as {}: {} layers of {}, {} heads of {} ({} of keys and values), feed-forward {}, vocabulary "
      "{}, context {}",
      config.architecture, config.layers, config.hidden, config.heads, config.head_dim, config.kv_heads, config.ffn,
      config.vocab, config.context);
  if (config.window > 0) {
    out += fmt::format(", window {} in {} layers", config.window,
                       std::count(config.local.begin(), config.local.end(), true));
  }
  if (config.experts > 0) {
    out +=
        fmt::format(", {} of {} experts with feed-forward {}", config.experts_used, config.experts, config.expert_ffn);
  }
  return out + fmt::format("\nKeys and values: {} bytes a position as {}\n", kv_bytes_per_position(config, kv_type),
                           dtype_info(kv_type).name);
}

std::string as_text(const ModelFile& file, DType kv_type, const std::string& quantize) {
  const TensorSource& source = file.tensors();
  std::string out = fmt::format("{}: {:.1f} MB, {} tensors\n\n", source.path(),
                                static_cast<double>(source.file_bytes()) / 1e6, source.tensors().size());
  const Result<ModelConfig> config = read_model_config(file);
  out += config.ok() ? config_text(*config, kv_type)
                     : fmt::format("This build cannot run it: {}\n", config.error().message);
  out += '\n' + metadata_text(file);
  out += "\nTensors:\n";
  size_t width = 0;
  for (const TensorInfo& tensor : source.tensors()) width = std::max(width, tensor.name.size());
  width = std::min(width, kWidestName);
  for (const TensorInfo& tensor : source.tensors()) {
    out += fmt::format("  {:<{}} {:<8} {:<20} {:>14} bytes  {}\n", printable(tensor.name), width, tensor.type_name,
                       format_shape(shape_of(tensor)), tensor.bytes, use_of(tensor, quantize));
  }
  out += "\nBytes by type:\n";
  for (const auto& [name, total] : totals_by_type(source)) {
    out += fmt::format("  {:<10} {:>6} tensors {:>14} bytes{}\n", name, total.tensors, total.bytes,
                       total.supported ? "" : "  not supported by this build");
  }
  return out;
}

// A single value as JSON's own type; of an array its element type and length.
nlohmann::ordered_json metadata_json(const GgufEntry& entry, const std::string& path) {
  if (entry.type == GgufType::kArray) return {{"array_of", gguf_type_name(entry.element)}, {"count", entry.count}};
  if (const auto flag = read_gguf_value<bool>(entry, path); flag.ok()) return *flag;
  if (const auto whole = read_gguf_value<int64_t>(entry, path); whole.ok()) return *whole;
  if (const auto number = read_gguf_value<double>(entry, path); number.ok()) return *number;
  if (const auto text = read_gguf_value<std::string_view>(entry, path); text.ok()) return *text;
  return format_gguf_value(entry);  // beyond 63 bits, or not finite
}

nlohmann::ordered_json as_json(const ModelFile& file, DType kv_type, const std::string& quantize) {
  const TensorSource& source = file.tensors();
  const GgufFile* gguf = file.gguf();
  nlohmann::ordered_json json = {
      {"path", source.path()}, {"format", gguf != nullptr ? "gguf" : "safetensors"}, {"bytes", source.file_bytes()}};
  nlohmann::ordered_json metadata = nlohmann::ordered_json::object();
  if (gguf != nullptr) {
    json["version"] = gguf->version();
    json["alignment"] = gguf->alignment();
    for (const GgufEntry& entry : gguf->metadata())
      metadata[std::string(entry.key)] = metadata_json(entry, gguf->path());
  } else {
    metadata = file.hf()->config();
  }
  if (const Result<ModelConfig> config = read_model_config(file); config.ok()) {
    json["runs_as"] = {{"architecture", config->architecture},
                       {"layers", config->layers},
                       {"hidden", config->hidden},
                       {"heads", config->heads},
                       {"kv_heads", config->kv_heads},
                       {"head_dim", config->head_dim},
                       {"vocabulary", config->vocab},
                       {"context", config->context},
                       {"kv_bytes_per_position", kv_bytes_per_position(*config, kv_type)}};
  } else {
    json["refused"] = config.error().message;
  }
  json["metadata"] = std::move(metadata);
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const TensorInfo& tensor : source.tensors()) {
    tensors.push_back({{"name", tensor.name},
                       {"type", tensor.type_name},
                       {"supported", tensor.type.has_value()},
                       {"shape", shape_of(tensor)},
                       {"bytes", tensor.bytes},
                       {"use", use_of(tensor, quantize)}});
  }
  json["tensors"] = std::move(tensors);
  return json;
}

}  // namespace

Result<ExitCode> cmd_inspect(const Invocation& call) {
  const std::string& model = call.operands.empty() ? call.settings.get<"model">() : call.operands[0];
  DSPARK_TRY(const std::string path, local_model(model));
  DSPARK_TRY(const ModelFile file, ModelFile::open(path));
  DSPARK_TRY(const DType kv_type, dtype_from_name(call.settings.get<"kv-type">()));
  const std::string& quantize = call.settings.get<"quantize">();
  DSPARK_RETURN_IF_ERROR(call.settings.get<"json">() ? write_json(as_json(file, kv_type, quantize))
                                                     : write_output(as_text(file, kv_type, quantize)));
  return ExitCode::kOk;
}

}  // namespace dspark
