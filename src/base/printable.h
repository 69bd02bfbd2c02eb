// Foreign bytes made fit for a one-line message. Pure, any thread.
#pragma once

#include <string>
#include <string_view>

namespace dspark {

// `text` with control characters, line and direction marks, backslashes and broken UTF-8 escaped (\n, \t, \x1b), cut
// after at most `max_bytes` of the input, between characters, with "..." behind it. A hostile name can neither fake a
// second line nor steer a terminal.
std::string printable(std::string_view text, size_t max_bytes = 80);

// The same in single quotes, with those inside escaped, too.
std::string quote(std::string_view text, size_t max_bytes = 120);

}  // namespace dspark
