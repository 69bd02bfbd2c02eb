// Parts of Python's str methods (jinja_strings.cc) that filters use too. One render's thread.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja_runtime.h"

namespace dspark::jinja {

// The native method of str of this name, or null.
const Native* find_text_method(std::string_view name);

// text.replace(old, by, most); most < 0: all.
std::string replace_text(Runtime& rt, std::string_view text, std::string_view old, std::string_view by, Int most);

// Fills `text` up to `width` code points with the character `fill`, on the left, on the right or around it.
std::string justify_text(Runtime& rt, std::string_view text, Int width, std::string_view fill, bool left, bool right);

}  // namespace dspark::jinja
