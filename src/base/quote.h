// How text from files and requests appears in messages: bounded, on one line, without control characters. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace dspark {

// `text` in single quotes; control characters, quotes, backslashes and broken UTF-8 as \xNN; cut after `max_bytes`
// with "...". A hostile name can neither fake a second line nor steer a terminal.
std::string quote(std::string_view text, size_t max_bytes = 120);

}  // namespace dspark
