// libFuzzer target of gguf.h: no bytes may crash the parser, or make it hand out a view outside of them.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "model/gguf.h"

namespace dspark {
namespace {

volatile uint8_t g_sink;

// Reads the ends of a view: the sanitizer sees one that lies outside.
void touch(const uint8_t* data, size_t bytes) {
  if (bytes > 0) g_sink = static_cast<uint8_t>(data[0] + data[bytes - 1]);
}

template <class T>
void read_as(const GgufFile& file, const GgufEntry& entry) {
  const auto value = file.require<T>(entry.key);
  const auto again = file.get_or<T>(entry.key, T{});
  DSPARK_CHECK(value.ok() == again.ok(), "two readings of one key differ");
}

void read_all(const GgufFile& file) {
  for (const GgufEntry& entry : file.metadata()) {
    (void)format_gguf_value(entry);
    read_as<bool>(file, entry);
    read_as<int32_t>(file, entry);
    read_as<uint64_t>(file, entry);
    read_as<float>(file, entry);
    read_as<std::string_view>(file, entry);
    read_as<std::vector<bool>>(file, entry);
    read_as<std::vector<int64_t>>(file, entry);
    read_as<std::vector<float>>(file, entry);
    const auto texts = file.require<std::vector<std::string_view>>(entry.key);
    if (!texts.ok()) continue;
    for (const std::string_view text : *texts) touch(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  }
  for (const TensorInfo& tensor : file.tensors()) {
    touch(tensor.data, tensor.bytes);
    const auto view = file.find(tensor.name);
    if (!view.ok()) continue;
    DSPARK_CHECK(view->data == tensor.data && view->bytes > 0, "the view is another tensor's");
    touch(view->data, view->bytes);
    const auto size = static_cast<size_t>(dtype_bytes(view->type, view->elements()));
    DSPARK_CHECK(size == view->bytes, "{} bytes, expected {}", view->bytes, size);
  }
}

}  // namespace
}  // namespace dspark

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = dspark::GgufFile::parse({data, size}, "fuzz.gguf");
  if (file.ok()) {
    dspark::read_all(*file);
  } else {
    DSPARK_CHECK(file.error().message.find('\n') == std::string::npos, "a message of two lines");
  }
  return 0;
}
