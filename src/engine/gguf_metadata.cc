// See gguf_metadata.h.
#include "engine/gguf_metadata.h"

namespace dspark {

std::optional<std::string_view> GgufMetadata::get_bytes(std::string_view key) const {
  const GgufEntry* entry = file_.entry(key);
  if (entry == nullptr || entry->type != GgufType::kArray ||
      (entry->element != GgufType::kU8 && entry->element != GgufType::kI8)) {
    return std::nullopt;
  }
  return std::string_view(reinterpret_cast<const char*>(entry->data.data()), entry->data.size());
}

}  // namespace dspark
