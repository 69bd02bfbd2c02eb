// The part of the parser (jinja_parser.h) that reads expressions, and the stream of tokens that both parts read from.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace dspark::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  int line() const { return current().line; }

  bool is(TokenType type) const { return current().type == type; }
  bool is_op(std::string_view op) const { return is(TokenType::kOperator) && current().text == op; }
  bool is_name(std::string_view name) const { return is(TokenType::kName) && current().text == name; }
  bool is_name_of(std::initializer_list<std::string_view> names) const;

  // The current token; moves on.
  const Token& next();
  bool skip_op(std::string_view op) { return is_op(op) && (next(), true); }
  bool skip_name(std::string_view name) { return is_name(name) && (next(), true); }

  // As next(), but fails unless it is what is expected.
  const Token& expect(TokenType type);
  void expect_op(std::string_view op);
  void expect_name(std::string_view name);

 private:
  [[noreturn]] void fail_expected(std::string_view wanted) const;

  std::vector<Token> tokens_;
  size_t at_ = 0;
};

// A token as error messages name it.
std::string describe(const Token& token);

// Counts how deep the parser is for as long as it lives; fails beyond kMaxNesting.
class NestingGuard {
 public:
  NestingGuard(int& depth, int line);
  ~NestingGuard() { --depth_; }

 private:
  int& depth_;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& stream) : stream_(stream) {}

  ExprPtr parse_expression();
  // One or more expressions apart by commas: a tuple, if there is a comma. `conditional`: `a if b else c` is read as
  // one expression. `stop`: a name that ends the tuple too.
  ExprPtr parse_tuple(bool conditional = true, std::string_view stop = {}, bool may_be_empty = false);
  // name(arguments)|name ... from the name of the first filter on, applied to `input`.
  ExprPtr parse_filters(ExprPtr input);

  // The nesting of everything that is being parsed, statements included.
  int& depth() { return depth_; }

 private:
  ExprPtr parse_conditional();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_comparison();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filters);
  ExprPtr parse_primary();
  ExprPtr parse_name();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr expr);
  ExprPtr parse_postfix_filters(ExprPtr expr);
  ExprPtr parse_subscript(ExprPtr object);
  ExprPtr parse_slice_rest(ExprPtr object, ExprPtr start, int line);
  ExprPtr parse_call(ExprPtr callee);
  ExprPtr parse_test(ExprPtr input);
  ArgumentExprs parse_arguments();
  void parse_argument(ArgumentExprs& arguments, int line);
  std::string parse_dotted_name();

  TokenStream& stream_;
  int depth_ = 0;
};

}  // namespace dspark::jinja
