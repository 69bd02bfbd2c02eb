// Checks a conversation and brings it into the form that templates expect. Pure, any thread.
#pragma once

#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "server/api_error.h"

namespace dspark {

// OpenAI's messages: roles, contents of text (other parts are a 400), tool calls, whose arguments become objects.
// "developer" becomes "system", an absent content "".
std::optional<ApiError> normalize_messages(nlohmann::ordered_json* messages);

// [{"type": "function", "function": {"name", "description", "parameters"}}]
std::optional<ApiError> check_tools(const nlohmann::ordered_json& tools);

}  // namespace dspark
