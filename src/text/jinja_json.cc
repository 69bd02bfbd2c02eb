// See jinja_json.h.
#include "text/jinja_json.h"

#include "text/jinja_unicode.h"

namespace dspark::jinja {
namespace {

Value from_text(Runtime& rt, const std::string& text) {
  if (const size_t bad = find_invalid_utf8(text); bad != std::string_view::npos) {
    fail("the input holds text that is not valid UTF-8, at byte {} of {}", bad, text.size());
  }
  return rt.text(text);
}

Value convert(Runtime& rt, const nlohmann::ordered_json& json, int depth) {
  using Type = nlohmann::ordered_json::value_t;
  if (depth > kMaxValueDepth) fail_limit("the input is nested deeper than the limit of {}", kMaxValueDepth);
  switch (json.type()) {
    case Type::null:
      return Value::none();
    case Type::boolean:
      return Value::boolean(json.get<bool>());
    case Type::number_integer:
      return Value::integer(json.get<int64_t>());
    case Type::number_unsigned:
      return Value::integer(json.get<uint64_t>());
    case Type::number_float:
      return Value::real(json.get<double>());
    case Type::string:
      return from_text(rt, json.get_ref<const std::string&>());
    case Type::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(convert(rt, item, depth + 1));
      return rt.list(std::move(items));
    }
    case Type::object: {
      std::vector<std::pair<Value, Value>> entries;
      entries.reserve(json.size());
      for (const auto& [key, value] : json.items()) {
        Value name = from_text(rt, key);
        entries.emplace_back(std::move(name), convert(rt, value, depth + 1));
      }
      return rt.dict(std::move(entries));
    }
    default:
      fail("the input holds something that is not JSON: {}", json.type_name());
  }
}

}  // namespace

Value from_json(Runtime& rt, const nlohmann::ordered_json& json) { return convert(rt, json, 1); }

}  // namespace dspark::jinja
