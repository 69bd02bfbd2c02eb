// Values as text: Python's str() and repr(), and JSON as transformers' tojson writes it. One render's thread.
#pragma once

#include <string>

#include "text/jinja_runtime.h"

namespace dspark::jinja {

// Append str(value) or repr(value). They fail where the text would pass the limit.
void append_str(Runtime& rt, std::string& out, const Value& value);
void append_repr(Runtime& rt, std::string& out, const Value& value);
std::string to_str(Runtime& rt, const Value& value);
std::string to_repr(Runtime& rt, const Value& value);

// repr(float): the shortest digits that read back as the same number.
std::string real_repr(double value);

// json.dumps with these of its options.
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool indented = false;  // one item a line, each level `indent` deeper
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
std::string to_json(Runtime& rt, const Value& value, const JsonStyle& style);

}  // namespace dspark::jinja
