// The guarded parser and the typed getters behind json.h.
#include "base/json.h"

#include <cmath>
#include <optional>
#include <type_traits>
#include <unordered_set>
#include <utility>

#include "base/printable.h"

namespace dspark {
namespace {

using nlohmann::json;

// Builds the document from the parser's events; a false return stops the parser, with the cause in error_. Json: json
// (keys sorted) or ordered_json.
template <class Json>
class GuardedBuilder final : public nlohmann::json_sax<Json> {
 public:
  GuardedBuilder(std::string_view name, const JsonLimits& limits) : name_(name), limits_(limits) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(int64_t value) override { return add(value); }
  bool number_unsigned(uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(typename Json::binary_t&) override { return fail("binary value"); }
  bool start_object(size_t) override { return open(Json::value_t::object); }
  bool start_array(size_t) override { return open(Json::value_t::array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& value) override {
    bool twice = false;
    if constexpr (kSorted) {
      twice = stack_.back().value->contains(value);
    } else {
      twice = !stack_.back().keys.insert(value).second;
    }
    if (twice) return fail(fmt::format("the key {} stands twice in one object", quote(value)));
    key_ = std::move(value);
    return true;
  }

  bool parse_error(size_t position, const std::string& token, const nlohmann::json::exception&) override {
    return fail(fmt::format("not valid JSON at byte {}, near {}", position, quote(token, 40)));
  }

  bool failed() const { return error_.has_value(); }
  Error error() const { return *error_; }
  Json take() { return std::move(root_); }

 private:
  static constexpr bool kSorted = std::is_same_v<Json, json>;
  // A container that is not closed. An ordered object finds its keys in linear time only, hence the set.
  struct Open {
    Json* value;
    std::unordered_set<std::string> keys;
  };

  bool fail(const std::string& what) {
    if (!error_) error_ = make_error(ErrorCode::kCorrupt, "{}: {}", name_, what);
    return false;
  }

  template <class Value>
  bool add(Value&& value) {
    return place(std::forward<Value>(value)) != nullptr;
  }

  bool open(typename Json::value_t kind) {
    if (stack_.size() >= limits_.max_depth) return fail(fmt::format("nested deeper than {} levels", limits_.max_depth));
    Json* place_of_new = place(kind);
    if (place_of_new == nullptr) return false;
    stack_.push_back({place_of_new, {}});
    return true;
  }

  bool close() {
    stack_.pop_back();
    return true;
  }

  // Pointers in stack_ stay valid: only the innermost container grows, and none of its elements is open.
  template <class Value>
  Json* place(Value&& value) {
    if (++values_ > limits_.max_values) {
      fail(fmt::format("more than {} values", limits_.max_values));
      return nullptr;
    }
    if (stack_.empty()) {
      root_ = Json(std::forward<Value>(value));
      return &root_;
    }
    Json& parent = *stack_.back().value;
    if (parent.is_array()) {
      return &parent.template get_ref<typename Json::array_t&>().emplace_back(std::forward<Value>(value));
    }
    auto& object = parent.template get_ref<typename Json::object_t&>();
    if constexpr (kSorted) {
      return &object.emplace(std::move(key_), std::forward<Value>(value)).first->second;
    } else {
      return &object.emplace_back(std::move(key_), std::forward<Value>(value)).second;
    }
  }

  std::string_view name_;
  const JsonLimits& limits_;
  Json root_;
  std::vector<Open> stack_;
  std::string key_;
  size_t values_ = 0;
  std::optional<Error> error_;
};

// A short form of a value for messages.
std::string described(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  if (value.is_string()) return fmt::format("the string {}", quote(value.get_ref<const std::string&>(), 60));
  return value.dump();
}

template <class T>
constexpr bool kIsVector = false;
template <class T>
constexpr bool kIsVector<std::vector<T>> = true;

template <class T>
std::string expected_name() {
  if constexpr (kIsVector<T>) {
    return fmt::format("an array, each {}", expected_name<typename T::value_type>());
  } else if constexpr (std::is_same_v<T, bool>) {
    return "true or false";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return "a string";
  } else if constexpr (std::is_floating_point_v<T>) {
    return "a finite number";
  } else {
    return fmt::format("an integer from {} to {}", std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
  }
}

template <class T>
std::optional<T> convert(const json& value) {
  if constexpr (kIsVector<T>) {
    if (!value.is_array()) return std::nullopt;
    T out;
    out.reserve(value.size());
    for (const json& element : value) {
      auto converted = convert<typename T::value_type>(element);
      if (!converted) return std::nullopt;
      out.push_back(std::move(*converted));
    }
    return out;
  } else if constexpr (std::is_same_v<T, bool>) {
    if (value.is_boolean()) return value.get<bool>();
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (value.is_string()) return value.get<std::string>();
  } else if constexpr (std::is_floating_point_v<T>) {
    if (value.is_number() && std::isfinite(value.get<T>())) return value.get<T>();
  } else {
    if (value.is_number_unsigned() && std::in_range<T>(value.get<uint64_t>())) return value.get<T>();
    if (value.is_number_integer() && !value.is_number_unsigned() && std::in_range<T>(value.get<int64_t>())) {
      return value.get<T>();
    }
  }
  return std::nullopt;
}

template <class Json>
Result<Json> parse_guarded(std::string_view text, std::string_view name, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return make_error(ErrorCode::kCorrupt, "{}: {} bytes of JSON, expected at most {}", name, text.size(),
                      limits.max_bytes);
  }
  GuardedBuilder<Json> builder(name, limits);
  if (!Json::sax_parse(text.begin(), text.end(), &builder) || builder.failed()) return builder.error();
  return builder.take();
}

}  // namespace

Result<json> parse_json(std::string_view text, std::string_view name, const JsonLimits& limits) {
  return parse_guarded<json>(text, name, limits);
}

Result<nlohmann::ordered_json> parse_ordered_json(std::string_view text, std::string_view name,
                                                  const JsonLimits& limits) {
  return parse_guarded<nlohmann::ordered_json>(text, name, limits);
}

template <class T>
Result<T> json_require(const json& object, std::string_view key, std::string_view name) {
  if (!object.is_object()) {
    return make_error(ErrorCode::kCorrupt, "{}: found {}, expected an object with {}", name, described(object),
                      quote(key));
  }
  const auto it = object.find(key);
  if (it == object.end()) {
    return make_error(ErrorCode::kCorrupt, "{}: key {} is missing, expected {}", name, quote(key), expected_name<T>());
  }
  auto value = convert<T>(*it);
  if (!value) {
    return make_error(ErrorCode::kCorrupt, "{}: key {} is {}, expected {}", name, quote(key), described(*it),
                      expected_name<T>());
  }
  return std::move(*value);
}

template Result<bool> json_require(const json&, std::string_view, std::string_view);
template Result<int32_t> json_require(const json&, std::string_view, std::string_view);
template Result<uint32_t> json_require(const json&, std::string_view, std::string_view);
template Result<int64_t> json_require(const json&, std::string_view, std::string_view);
template Result<uint64_t> json_require(const json&, std::string_view, std::string_view);
template Result<float> json_require(const json&, std::string_view, std::string_view);
template Result<double> json_require(const json&, std::string_view, std::string_view);
template Result<std::string> json_require(const json&, std::string_view, std::string_view);
template Result<std::vector<int32_t>> json_require(const json&, std::string_view, std::string_view);
template Result<std::vector<uint32_t>> json_require(const json&, std::string_view, std::string_view);
template Result<std::vector<int64_t>> json_require(const json&, std::string_view, std::string_view);
template Result<std::vector<uint64_t>> json_require(const json&, std::string_view, std::string_view);
template Result<std::vector<float>> json_require(const json&, std::string_view, std::string_view);
template Result<std::vector<double>> json_require(const json&, std::string_view, std::string_view);
template Result<std::vector<std::string>> json_require(const json&, std::string_view, std::string_view);

}  // namespace dspark
