// Bytes in and out of the process for the commands: files, standard input, standard output. Main thread.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/read_file.h"
#include "base/result.h"

namespace dspark {

// The whole of a file, or of standard input for "-", byte for byte; errors as read_file.
Result<std::string> read_input(const std::string& path, int64_t max_bytes);
// What messages call it.
std::string input_name(const std::string& path);

// Writes all bytes to standard output and flushes them, so that what was printed is seen even if the next step takes
// long; a full disk or a closed pipe is an error.
Status write_output(std::string_view bytes);

// On standard error, as one line whatever it quotes: a template says itself why it refuses a conversation.
void print_error(std::string message);

// One line of JSON on standard output. Strings that are not UTF-8 get U+FFFD for what is broken.
Status write_json(const nlohmann::ordered_json& value);

}  // namespace dspark
