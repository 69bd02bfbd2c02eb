// See call_scanner.h.
#include "server/call_scanner.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace dspark {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// The text of a JSON string; as it stands if it is not one.
std::string decoded(const std::string& json) {
  const auto value = nlohmann::json::parse(json, nullptr, false);
  return value.is_string() ? value.get<std::string>() : json;
}

}  // namespace

size_t CallScanner::push(std::string_view text, ToolParts* out) {
  size_t read = 0;
  while (read < text.size() && state_ == State::kMore) {
    const char c = text[read];
    if (!step(c, out)) {
      // A call of which a part has gone out cannot be taken back: what is broken behind it ends it.
      state_ = started_ ? State::kDone : State::kNoCall;
      break;
    }
    raw_ += c;
    ++read;
  }
  return read;
}

bool CallScanner::step(char c, ToolParts* out) {
  switch (phase_) {
    case Phase::kOpen:
      if (c == '{') phase_ = Phase::kKey;
      return c == '{' || is_space(c);
    case Phase::kKey:
      if (c == '}') {
        end_object(out);
        return true;
      }
      if (c == '"') {
        token_ = c;
        phase_ = Phase::kInKey;
      }
      return c == '"' || is_space(c);
    case Phase::kInKey:
      token_ += c;
      if (c == '"' && !escaped_) {
        key_ = decoded(token_);
        phase_ = Phase::kColon;
      }
      escaped_ = c == '\\' && !escaped_;
      return true;
    case Phase::kColon:
      if (c == ':') {
        phase_ = Phase::kValue;
        value_.clear();
        depth_ = 0;
        in_string_ = escaped_ = false;
      }
      return c == ':' || is_space(c);
    case Phase::kValue:
      return value_step(c, out);
    case Phase::kComma:
      if (c == '}') {
        end_object(out);
        return true;
      }
      if (c == ',') phase_ = Phase::kKey;
      return c == ',' || is_space(c);
  }
  return false;
}

bool CallScanner::value_step(char c, ToolParts* out) {
  if (value_.empty() && is_space(c)) return true;
  if (!in_string_ && depth_ == 0 && (c == ',' || c == '}')) {  // behind a number or a word
    if (value_.empty()) return false;
    end_value(out);
    phase_ = Phase::kKey;
    if (c == '}') end_object(out);
    return true;
  }
  const bool flows = is_arguments() && !has_arguments_ && !name_.empty() && (value_.empty() ? c : value_[0]) == '{';
  if (flows) {
    start_call(out);
    if (!out->calls.empty() && out->calls.back().index == index_) {
      out->calls.back().arguments += c;
    } else {
      out->calls.push_back({.index = index_, .arguments = std::string(1, c)});
    }
  }
  value_ += c;
  if (in_string_) {
    if (c == '"' && !escaped_) in_string_ = false;
    escaped_ = c == '\\' && !escaped_;
  } else if (c == '"') {
    in_string_ = true;
    escaped_ = false;
  } else {
    depth_ += (c == '{' || c == '[') - (c == '}' || c == ']');
  }
  if (!in_string_ && depth_ <= 0 && (c == '}' || c == ']' || c == '"')) {
    if (flows) has_arguments_ = true;
    end_value(out);
    phase_ = Phase::kComma;
  }
  return true;
}

void CallScanner::end_value(ToolParts* out) {
  value_.erase(value_.find_last_not_of(" \t\r\n") + 1);
  if (key_ == "name" && name_.empty() && value_[0] == '"') name_ = decoded(value_);
  if (is_arguments() && !has_arguments_) {
    has_arguments_ = true;
    arguments_ = value_[0] == '"' ? decoded(value_) : value_;  // some models write them as a string
    if (arguments_.empty() || arguments_ == "null") arguments_ = "{}";
  }
  if (!started_ && has_arguments_ && !name_.empty()) {
    start_call(out);
    out->calls.back().arguments += arguments_;
  }
}

void CallScanner::end_object(ToolParts* out) {
  state_ = State::kDone;
  if (started_) return;
  if (name_.empty() || !bare_name_) {
    state_ = State::kNoCall;
    return;
  }
  start_call(out);
  out->calls.back().arguments = "{}";
}

void CallScanner::start_call(ToolParts* out) {
  if (std::exchange(started_, true)) return;
  out->calls.push_back({.index = index_, .id = id_, .name = name_});
}

}  // namespace dspark
