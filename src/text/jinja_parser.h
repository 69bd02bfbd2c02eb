// Parses a template as jinja2 does (jinja2/parser.py is the grammar), with its loop controls and transformers'
// {% generation %}. Pure, any thread.
#pragma once

#include <string_view>

#include "text/jinja_ast.h"

namespace dspark::jinja {

// Fails (jinja_error.h) with the line and the cause. The variables of the result are not numbered yet.
Program parse(std::string_view source);

}  // namespace dspark::jinja
