// The warm-up of the KV cache: prompts that are computed, and kept for ever, before the server says that it is ready.
// Loading thread.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "server/api_keys.h"
#include "server/served_model.h"

namespace dspark {

// The prompts of a file: a JSON object a line, {"prompt": TEXT} or {"messages": [...]}, with "tools" and what else the
// template takes, and "tenant" and "cache_salt" of those who may find it; an access log with prompts will do. Errors
// name the line. Where keys have tenants, each line must name one of them.
Result<std::vector<Request>> read_warm_up(const std::string& path, const ServedModel& model, const ApiKeys& keys);

// Computes all of them; the first error of any.
Status warm_up(Serving& serving, std::vector<Request> requests);

}  // namespace dspark
