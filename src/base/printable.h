// Foreign bytes made fit for a one-line message. Pure, any thread.
#pragma once

#include <string>
#include <string_view>

namespace dspark {

// `text` with control characters and backslashes escaped (\n, \t, \x1b), cut after `max_bytes` of the input with
// "..." behind it. UTF-8 passes unchanged but for what the cut may halve.
std::string printable(std::string_view text, size_t max_bytes = 80);

}  // namespace dspark
