// Functions with documentation in Python source, as material for prompts about code. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dspark {

struct PythonFunction {
  std::string signature;      // "def name(...) -> type:", one or more lines, without indentation
  std::string documentation;  // of the docstring: its first paragraph, as one line
  std::string head;           // signature and whole docstring, indentation of the def taken off
  std::string source;         // the whole function, the same way
};

// The functions and methods in `text` that have a docstring in double quotes of 20 to 800 bytes. Private names, those
// with a leading underscore, and tests are left out. Any text is fine; what is not Python gives nothing.
std::vector<PythonFunction> find_python_functions(std::string_view text);

}  // namespace dspark
