// `dspark inspect`: what a model file holds: metadata, tensors, bytes by type. Main thread.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "model/gguf.h"
#include "tools/command.h"
#include "tools/io.h"

namespace dspark {
namespace {

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

std::string as_text(const GgufFile& file) {
  std::string out = fmt::format("{}: GGUF version {}, {:.1f} MB, {} metadata entries, {} tensors\n\nMetadata:\n",
                                file.path(), file.version(), static_cast<double>(file.file_bytes()) / 1e6,
                                file.metadata().size(), file.tensors().size());
  for (const GgufEntry& entry : file.metadata()) {
    out += fmt::format("  {} = {}\n", printable(entry.key), format_gguf_value(entry));
  }
  out += "\nTensors:\n";
  for (const TensorInfo& tensor : file.tensors()) {
    out += fmt::format("  {:<40} {:<10} {:<20} {:>14} bytes\n", printable(tensor.name), tensor.type_name,
                       format_shape(shape_of(tensor)), tensor.bytes);
  }
  out += "\nBytes by type:\n";
  for (const auto& [name, total] : totals_by_type(file)) {
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

nlohmann::ordered_json as_json(const GgufFile& file) {
  nlohmann::ordered_json json = {{"path", file.path()},
                                 {"format", "gguf"},
                                 {"version", file.version()},
                                 {"alignment", file.alignment()},
                                 {"bytes", file.file_bytes()}};
  auto& metadata = json["metadata"] = nlohmann::ordered_json::object();
  for (const GgufEntry& entry : file.metadata()) metadata[std::string(entry.key)] = metadata_json(entry, file.path());
  auto& tensors = json["tensors"] = nlohmann::ordered_json::array();
  for (const TensorInfo& tensor : file.tensors()) {
    tensors.push_back({{"name", tensor.name},
                       {"type", tensor.type_name},
                       {"supported", tensor.type.has_value()},
                       {"shape", shape_of(tensor)},
                       {"bytes", tensor.bytes}});
  }
  return json;
}

}  // namespace

Result<ExitCode> cmd_inspect(const Invocation& call) {
  const std::string& path = call.operands.empty() ? call.settings.get<"model">() : call.operands[0];
  DSPARK_TRY(const GgufFile file, GgufFile::open(path));
  DSPARK_RETURN_IF_ERROR(call.settings.get<"json">() ? write_json(as_json(file)) : write_output(as_text(file)));
  return ExitCode::kOk;
}

}  // namespace dspark
