// From `--model` to a file or folder on this machine. Main thread.
#pragma once

#include <string>

#include "base/result.h"

namespace dspark {

// The path of a model given by known name, URL or path; it is fetched first if need be, with progress on a terminal,
// and Ctrl-C stops that (kCancelled).
Result<std::string> local_model(const std::string& model);

}  // namespace dspark
