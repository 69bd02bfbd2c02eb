// Text that counts as HTML (markupsafe.Markup): the filters safe and escape make it, and it escapes what is added to
// it. Some published templates use it and depend on that. One render's thread.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja_runtime.h"

namespace dspark::jinja {

std::string escape_html(std::string_view text);
// str(value), escaped unless it is markup.
std::string escape_html(Runtime& rt, const Value& value);

// Calls a method of markup: its result is markup, and the texts that it puts in are escaped.
Value call_markup_method(Runtime& rt, const Method& method, CallArgs args);

}  // namespace dspark::jinja
