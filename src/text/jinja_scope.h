// Decides which variable each name in a template means, by the rules of jinja2's compiler (jinja2/idtracking.py), and
// numbers the variables. Jinja settles this before the template runs: a scope that assigns to a name anywhere has its
// own variable of it everywhere, which begins as a copy of the outer one. Pure, any thread.
#pragma once

#include "text/jinja_ast.h"

namespace dspark::jinja {

// Fills in the variables and scopes of a parsed template. Fails (jinja_error.h) for filters and tests that do not
// exist, unless they stand in a branch that may never run.
void resolve_variables(Program& program);

}  // namespace dspark::jinja
