// libFuzzer target of safetensors.h, the index included: no bytes may crash the parsers, or make them hand out a view
// outside of them.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "model/safetensors.h"

namespace dspark {
namespace {

volatile uint8_t g_sink;

void check_tensors(std::span<const uint8_t> bytes) {
  const auto tensors = parse_safetensors(bytes, "fuzz.safetensors");
  if (!tensors.ok()) {
    DSPARK_CHECK(tensors.error().message.find('\n') == std::string::npos, "a message of two lines");
    return;
  }
  for (const TensorInfo& tensor : *tensors) {
    if (tensor.bytes > 0) g_sink = static_cast<uint8_t>(tensor.data[0] + tensor.data[tensor.bytes - 1]);
    if (!tensor.type) continue;
    int64_t elements = 1;
    for (int i = 0; i < tensor.rank; ++i) elements *= tensor.shape[i];
    const auto size = static_cast<uint64_t>(dtype_bytes(*tensor.type, elements));
    DSPARK_CHECK(size == tensor.bytes, "{} bytes, expected {}", tensor.bytes, size);
  }
}

void check_index(std::string_view text) {
  const auto index = parse_safetensors_index(text, "fuzz.json");
  if (!index.ok()) return;
  for (const ShardEntry& entry : *index) {
    DSPARK_CHECK(entry.file.find('/') == std::string::npos, "a path in the index was accepted");
  }
}

}  // namespace
}  // namespace dspark

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dspark::check_tensors({data, size});
  dspark::check_index({reinterpret_cast<const char*>(data), size});
  return 0;
}
