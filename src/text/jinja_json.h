// JSON as values of the template interpreter. One render's thread.
#pragma once

#include <nlohmann/json.hpp>

#include "text/jinja_runtime.h"

namespace dspark::jinja {

// Fails (jinja_error.h) for text that is not UTF-8 and for nesting beyond kMaxValueDepth.
Value from_json(Runtime& rt, const nlohmann::ordered_json& json);

}  // namespace dspark::jinja
