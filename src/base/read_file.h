// Whole files as text, up to a limit: a device or a pipe that never ends is an error, not the end of the memory.
// Blocking, any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "base/result.h"

namespace dspark {

// What a person or a program writes for us: configurations, templates, requests, recipes.
inline constexpr int64_t kMaxDocumentBytes = int64_t{16} << 20;
// Texts to be tokenised, scored, answered or trained on.
inline constexpr int64_t kMaxTextBytes = int64_t{256} << 20;

// The bytes of a file or pipe. kNotFound if it cannot be opened or read, or is a named pipe into which nobody begins to
// write within kPipePatience; kCorrupt beyond `max_bytes`.
Result<std::string> read_file(const std::string& path, int64_t max_bytes);

inline constexpr std::chrono::milliseconds kPipePatience{3'000};

// The same of a stream that is open; `name` is for messages.
Result<std::string> read_stream(std::FILE* stream, const std::string& name, int64_t max_bytes);

}  // namespace dspark
