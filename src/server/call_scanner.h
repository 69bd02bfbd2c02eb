// CallScanner: reads one call of a tool written as a JSON object, {"name": ..., "arguments": {...}}, byte after byte,
// and hands on the arguments while they come. For tool_parser.cc.
#pragma once

#include <string>
#include <string_view>

#include "server/tool_parser.h"

namespace dspark {

class CallScanner {
 public:
  enum class State { kMore, kDone, kNoCall };
  // `bare_name`: an object with a name and no arguments is a call, too.
  CallScanner(int index, std::string id, bool bare_name) : index_(index), id_(std::move(id)), bare_name_(bare_name) {}

  // Reads from `text` until the object ends or cannot be a call; returns how many bytes were read.
  size_t push(std::string_view text, ToolParts* out);
  State state() const { return state_; }
  bool started() const { return started_; }        // a piece of the call has gone out
  const std::string& raw() const { return raw_; }  // all that was read

 private:
  enum class Phase { kOpen, kKey, kInKey, kColon, kValue, kComma };
  bool step(char c, ToolParts* out);
  bool value_step(char c, ToolParts* out);
  void end_value(ToolParts* out);
  void end_object(ToolParts* out);
  void start_call(ToolParts* out);
  bool is_arguments() const { return key_ == "arguments" || key_ == "parameters"; }

  int index_;
  std::string id_;
  bool bare_name_;
  State state_ = State::kMore;
  Phase phase_ = Phase::kOpen;
  bool started_ = false;
  bool in_string_ = false, escaped_ = false;
  int depth_ = 0;  // inside the value
  std::string raw_, token_, key_, value_, name_, arguments_;
  bool has_arguments_ = false;
};

}  // namespace dspark
