// Python's two ways to format: "..." % values and "...".format(values). One render's thread.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja_runtime.h"

namespace dspark::jinja {

// format % values: a tuple gives several, anything else one (or, for %(name)s, a dict). Both this and the next escape
// the values where `format` is markup.
std::string format_percent(Runtime& rt, const Value& format, const Value& values);

// format.format(*args, **named).
std::string format_braces(Runtime& rt, const Value& format, const CallArgs& args);

// Rounds to `digits` decimals as Python's round(): the nearest, ties of the exact value to even.
double round_decimals(double value, int64_t digits);

}  // namespace dspark::jinja
