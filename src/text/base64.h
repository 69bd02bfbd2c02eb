// Base64 (RFC 4648, with padding). Pure, any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace dspark {

// kCorrupt if `text` is not base64.
Result<std::string> decode_base64(std::string_view text);

std::string encode_base64(std::string_view bytes);

}  // namespace dspark
