// See chat_messages.h.
#include "server/chat_messages.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/json.h"
#include "server/request_schema.h"

namespace dspark {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 6> kRoles = {"system", "developer", "user", "assistant", "tool", "function"};

std::optional<ApiError> check_role(Json* message, const std::string& path) {
  const auto role = message->find("role");
  if (role == message->end()) return bad_field(path + ".role", "nothing", "a role");
  const bool known =
      role->is_string() && std::find(kRoles.begin(), kRoles.end(), role->get_ref<const std::string&>()) != kRoles.end();
  if (!known)
    return bad_field(path + ".role", shown(*role), "one of system, developer, user, assistant, tool, function");
  if (*role == "developer") *role = "system";
  return std::nullopt;
}

std::optional<ApiError> check_part(const Json& part, const std::string& path) {
  const auto type = part.is_object() ? part.find("type") : part.end();
  if (!part.is_object() || type == part.end()) return bad_field(path, shown(part), "an object with type and text");
  if (*type != "text") {
    ApiError error = bad_field(path + ".type", shown(*type), "\"text\"; this model reads no other parts");
    error.code = "unsupported_content";
    return error;
  }
  const auto text = part.find("text");
  if (text == part.end() || !text->is_string()) {
    return bad_field(path + ".text", text == part.end() ? "nothing" : shown(*text), "a string");
  }
  return std::nullopt;
}

std::optional<ApiError> check_content(Json* message, const std::string& path) {
  const auto content = message->find("content");
  if (content == message->end() || content->is_null()) {
    const bool may = *message->find("role") == "assistant";
    if (!may) return bad_field(path + ".content", "nothing", "a string or a list of text parts");
    (*message)["content"] = "";
    return std::nullopt;
  }
  if (content->is_string()) return std::nullopt;
  if (!content->is_array()) return bad_field(path + ".content", shown(*content), "a string or a list of text parts");
  for (size_t i = 0; i < content->size(); ++i) {
    if (auto error = check_part((*content)[i], fmt::format("{}.content[{}]", path, i))) return error;
  }
  return std::nullopt;
}

// OpenAI's arguments are a string that holds JSON; templates print the object.
std::optional<ApiError> check_tool_call(Json* call, const std::string& path) {
  if (!call->is_object()) return bad_field(path, shown(*call), "an object");
  const auto function = call->find("function");
  if (function == call->end() || !function->is_object()) {
    return bad_field(path + ".function", function == call->end() ? "nothing" : shown(*function), "an object");
  }
  const auto name = function->find("name");
  if (name == function->end() || !name->is_string()) {
    return bad_field(path + ".function.name", name == function->end() ? "nothing" : shown(*name), "a string");
  }
  const auto arguments = function->find("arguments");
  if (arguments == function->end() || arguments->is_null()) {
    (*function)["arguments"] = Json::object();
    return std::nullopt;
  }
  if (arguments->is_object()) return std::nullopt;
  if (arguments->is_string()) {
    const std::string text = *arguments;
    if (text.empty()) {
      *arguments = Json::object();
      return std::nullopt;
    }
    auto parsed =
        parse_ordered_json(text, "arguments", {.max_bytes = 16 << 20, .max_depth = 32, .max_values = 1'000'000});
    if (parsed.ok() && parsed->is_object()) {
      *arguments = std::move(parsed).value();
      return std::nullopt;
    }
  }
  return bad_field(path + ".function.arguments", shown(*arguments), "a string that holds a JSON object");
}

std::optional<ApiError> check_message(Json* message, const std::string& path) {
  if (!message->is_object()) return bad_field(path, shown(*message), "an object with role and content");
  if (auto error = check_role(message, path)) return error;
  if (auto error = check_content(message, path)) return error;
  const auto calls = message->find("tool_calls");
  if (calls == message->end()) return std::nullopt;
  if (calls->is_null() || (calls->is_array() && calls->empty())) {
    message->erase("tool_calls");
    return std::nullopt;
  }
  if (!calls->is_array()) return bad_field(path + ".tool_calls", shown(*calls), "a list");
  for (size_t i = 0; i < calls->size(); ++i) {
    if (auto error = check_tool_call(&(*calls)[i], fmt::format("{}.tool_calls[{}]", path, i))) return error;
  }
  return std::nullopt;
}

}  // namespace

std::optional<ApiError> normalize_messages(Json* messages) {
  for (size_t i = 0; i < messages->size(); ++i) {
    if (auto error = check_message(&(*messages)[i], fmt::format("messages[{}]", i))) return error;
  }
  return std::nullopt;
}

std::optional<ApiError> check_tools(const Json& tools) {
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string path = fmt::format("tools[{}]", i);
    const Json& tool = tools[i];
    if (!tool.is_object()) return bad_field(path, shown(tool), "an object");
    const auto type = tool.find("type");
    if (type == tool.end() || *type != "function") {
      return bad_field(path + ".type", type == tool.end() ? "nothing" : shown(*type), "\"function\"");
    }
    const auto function = tool.find("function");
    if (function == tool.end() || !function->is_object()) {
      return bad_field(path + ".function", function == tool.end() ? "nothing" : shown(*function), "an object");
    }
    const auto name = function->find("name");
    if (name == function->end() || !name->is_string() || name->get_ref<const std::string&>().empty()) {
      return bad_field(path + ".function.name", name == function->end() ? "nothing" : shown(*name), "a name");
    }
    const auto parameters = function->find("parameters");
    if (parameters != function->end() && !parameters->is_object() && !parameters->is_null()) {
      return bad_field(path + ".function.parameters", shown(*parameters), "a JSON schema (an object)");
    }
    const auto strict = function->find("strict");
    if (strict != function->end() && !strict->is_null() && *strict != false) {
      return unsupported_field(path + ".function.strict", shown(*strict), "false",
                               "arguments are not held to their schema here");
    }
  }
  return std::nullopt;
}

}  // namespace dspark
