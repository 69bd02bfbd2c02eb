// The filters, tests and global functions of jinja2 that templates can name. Tables are constant, any thread; the
// functions run on one render's thread.
#pragma once

#include <span>
#include <string_view>

#include "text/jinja_runtime.h"

namespace dspark::jinja {

// value | name and value is name; null for unknown names.
const Native* find_filter(std::string_view name);
const Native* find_test(std::string_view name);

// range, dict, namespace, cycler, joiner, raise_exception, strftime_now.
std::span<const Native> global_functions();

// Calls what is callable without the interpreter: native functions, bound methods, cyclers' and joiners' objects.
Value call_value(Runtime& rt, const Value& callee, CallArgs args);

}  // namespace dspark::jinja
