// Cuts a template into tokens by jinja2's rules, white space control included, as transformers sets it up
// (trim_blocks, lstrip_blocks, one newline dropped at the end). Pure, any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_value.h"

namespace dspark::jinja {

enum class TokenType {
  kText,           // between tags
  kVariableBegin,  // {{
  kVariableEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kReal,
  kOperator,
  kEnd,  // of the template
};

struct Token {
  TokenType type = TokenType::kEnd;
  int line = 1;
  std::string text;  // the name, operator or text itself; of a string: what it stands for
  Int integer = 0;
  double real = 0;
};

// Ends with a token of type kEnd. Fails (jinja_error.h) for text that is not UTF-8, unknown characters, unbalanced
// brackets, numbers out of range and unfinished comments and raw blocks.
std::vector<Token> tokenize(std::string_view source);

}  // namespace dspark::jinja
