// See jinja_expressions.h.
#include "text/jinja_expressions.h"

#include <algorithm>
#include <optional>

#include "text/jinja_error.h"
#include "text/jinja_filters.h"

namespace dspark::jinja {
namespace {

constexpr int kMaxExpressionDepth = 2 * kMaxNesting;  // chains like a.b.c.d are deep without being nested in the text

template <class Node>
ExprPtr make(int line, Node node) {
  auto expr = std::make_unique<Expr>(Expr{line, 1, std::move(node)});
  for_each_child(*expr, [&](Expr& child) { expr->depth = std::max(expr->depth, child.depth + 1); });
  if (expr->depth > kMaxExpressionDepth) {
    fail_syntax(line, "an expression is nested deeper than the limit of {}", kMaxExpressionDepth);
  }
  return expr;
}

ExprPtr make_constant(int line, Value value) { return make(line, ConstExpr{std::move(value)}); }

std::optional<CompareOp> comparison_of(const Token& token) {
  constexpr std::pair<std::string_view, CompareOp> kOps[] = {
      {"==", CompareOp::kEqual},     {"!=", CompareOp::kNotEqual}, {"<", CompareOp::kLess},
      {"<=", CompareOp::kLessEqual}, {">", CompareOp::kGreater},   {">=", CompareOp::kGreaterEqual}};
  for (const auto& [text, op] : kOps) {
    if (token.type == TokenType::kOperator && token.text == text) return op;
  }
  return std::nullopt;
}

}  // namespace

bool TokenStream::is_name_of(std::initializer_list<std::string_view> names) const {
  return is(TokenType::kName) && std::find(names.begin(), names.end(), current().text) != names.end();
}

const Token& TokenStream::next() {
  const Token& token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

std::string describe(const Token& token) {
  switch (token.type) {
    case TokenType::kText:
      return "template data / text";
    case TokenType::kVariableBegin:
      return "begin of print statement";
    case TokenType::kVariableEnd:
      return "end of print statement";
    case TokenType::kBlockBegin:
      return "begin of statement block";
    case TokenType::kBlockEnd:
      return "end of statement block";
    case TokenType::kName:
    case TokenType::kOperator:
      return token.text;
    case TokenType::kString:
      return "string";
    case TokenType::kInteger:
      return "integer";
    case TokenType::kReal:
      return "float";
    case TokenType::kEnd:
      return "end of template";
  }
  return {};
}

void TokenStream::fail_expected(std::string_view wanted) const {
  if (is(TokenType::kEnd)) fail_syntax(line(), "unexpected end of template, expected '{}'.", wanted);
  fail_syntax(line(), "expected token '{}', got '{}'", wanted, describe(current()));
}

const Token& TokenStream::expect(TokenType type) {
  if (!is(type)) {
    Token wanted;
    wanted.type = type;
    fail_expected(type == TokenType::kName ? "name" : describe(wanted));
  }
  return next();
}

void TokenStream::expect_op(std::string_view op) {
  if (!skip_op(op)) fail_expected(op);
}

void TokenStream::expect_name(std::string_view name) {
  if (!skip_name(name)) fail_expected(name);
}

NestingGuard::NestingGuard(int& depth, int line) : depth_(depth) {
  if (depth >= kMaxNesting) fail_syntax(line, "the template is nested deeper than the limit of {}", kMaxNesting);
  ++depth_;
}

ExprPtr ExpressionParser::parse_expression() { return parse_conditional(); }

ExprPtr ExpressionParser::parse_tuple(bool conditional, std::string_view stop, bool may_be_empty) {
  const auto at_end = [&] {
    return stream_.is(TokenType::kVariableEnd) || stream_.is(TokenType::kBlockEnd) || stream_.is_op(")") ||
           (!stop.empty() && stream_.is_name(stop));
  };
  const int line = stream_.line();
  SequenceExpr tuple{{}, true};
  bool has_comma = false;
  while (true) {
    if (!tuple.items.empty()) stream_.expect_op(",");
    if (at_end()) break;
    tuple.items.push_back(conditional ? parse_conditional() : parse_or());
    if (!stream_.is_op(",")) break;
    has_comma = true;
  }
  if (!has_comma && !tuple.items.empty()) return std::move(tuple.items.front());
  if (tuple.items.empty() && !may_be_empty) {
    fail_syntax(stream_.line(), "Expected an expression, got '{}'", describe(stream_.current()));
  }
  return make(line, std::move(tuple));
}

ExprPtr ExpressionParser::parse_conditional() {
  const NestingGuard guard(depth_, stream_.line());
  int line = stream_.line();
  ExprPtr expr = parse_or();
  while (stream_.skip_name("if")) {
    ExprPtr test = parse_or();
    ExprPtr otherwise = stream_.skip_name("else") ? parse_conditional() : nullptr;
    expr = make(line, ConditionalExpr{std::move(test), std::move(expr), std::move(otherwise)});
    line = stream_.line();
  }
  return expr;
}

ExprPtr ExpressionParser::parse_or() {
  const int line = stream_.line();
  ExprPtr first = parse_and();
  if (!stream_.is_name("or")) return first;
  LogicExpr logic{true, {}};
  logic.operands.push_back(std::move(first));
  while (stream_.skip_name("or")) logic.operands.push_back(parse_and());
  return make(line, std::move(logic));
}

ExprPtr ExpressionParser::parse_and() {
  const int line = stream_.line();
  ExprPtr first = parse_not();
  if (!stream_.is_name("and")) return first;
  LogicExpr logic{false, {}};
  logic.operands.push_back(std::move(first));
  while (stream_.skip_name("and")) logic.operands.push_back(parse_not());
  return make(line, std::move(logic));
}

ExprPtr ExpressionParser::parse_not() {
  if (!stream_.is_name("not")) return parse_comparison();
  const int line = stream_.next().line;
  const NestingGuard guard(depth_, line);
  return make(line, UnaryExpr{UnaryExpr::Op::kNot, parse_not()});
}

ExprPtr ExpressionParser::parse_comparison() {
  const int line = stream_.line();
  CompareExpr comparison{parse_sum(), {}};
  while (true) {
    std::optional<CompareOp> op = comparison_of(stream_.current());
    if (stream_.is_name("in")) op = CompareOp::kIn;
    const bool not_in =
        stream_.is_name("not") && stream_.ahead().type == TokenType::kName && stream_.ahead().text == "in";
    if (not_in) op = CompareOp::kNotIn, stream_.next();
    if (!op) break;
    stream_.next();
    comparison.rest.emplace_back(*op, parse_sum());
  }
  if (comparison.rest.empty()) return std::move(comparison.first);
  return make(line, std::move(comparison));
}

ExprPtr ExpressionParser::parse_sum() {
  const int line = stream_.line();
  ChainExpr chain{parse_concat(), {}};
  while (stream_.is_op("+") || stream_.is_op("-")) {
    const Token& token = stream_.next();
    chain.rest.push_back({token.text == "+" ? BinaryOp::kAdd : BinaryOp::kSubtract, token.line, parse_concat()});
  }
  if (chain.rest.empty()) return std::move(chain.first);
  return make(line, std::move(chain));
}

ExprPtr ExpressionParser::parse_concat() {
  const int line = stream_.line();
  ConcatExpr concat;
  concat.parts.push_back(parse_product());
  while (stream_.skip_op("~")) concat.parts.push_back(parse_product());
  if (concat.parts.size() == 1) return std::move(concat.parts.front());
  return make(line, std::move(concat));
}

ExprPtr ExpressionParser::parse_product() {
  constexpr std::pair<std::string_view, BinaryOp> kOps[] = {
      {"*", BinaryOp::kMultiply}, {"/", BinaryOp::kDivide}, {"//", BinaryOp::kFloorDivide}, {"%", BinaryOp::kModulo}};
  const int line = stream_.line();
  ChainExpr chain{parse_power(), {}};
  while (true) {
    const auto* op =
        std::find_if(std::begin(kOps), std::end(kOps), [&](const auto& o) { return stream_.is_op(o.first); });
    if (op == std::end(kOps)) break;
    const int op_line = stream_.next().line;
    chain.rest.push_back({op->second, op_line, parse_power()});
  }
  if (chain.rest.empty()) return std::move(chain.first);
  return make(line, std::move(chain));
}

ExprPtr ExpressionParser::parse_power() {
  const int line = stream_.line();
  ChainExpr chain{parse_unary(true), {}};
  while (stream_.is_op("**")) {
    const int op_line = stream_.next().line;
    chain.rest.push_back({BinaryOp::kPower, op_line, parse_unary(true)});
  }
  if (chain.rest.empty()) return std::move(chain.first);
  return make(line, std::move(chain));
}

ExprPtr ExpressionParser::parse_unary(bool with_filters) {
  const int line = stream_.line();
  ExprPtr expr;
  if (stream_.is_op("-") || stream_.is_op("+")) {
    const NestingGuard guard(depth_, line);
    const auto op = stream_.next().text == "-" ? UnaryExpr::Op::kNegative : UnaryExpr::Op::kPositive;
    expr = make(line, UnaryExpr{op, parse_unary(false)});
  } else {
    expr = parse_primary();
  }
  expr = parse_postfix(std::move(expr));
  return with_filters ? parse_postfix_filters(std::move(expr)) : std::move(expr);
}

ExprPtr ExpressionParser::parse_primary() {
  const Token& token = stream_.current();
  switch (token.type) {
    case TokenType::kName:
      return parse_name();
    case TokenType::kString: {
      std::string text;
      while (stream_.is(TokenType::kString)) text += stream_.next().text;
      return make_constant(token.line, Value::constant(std::move(text)));
    }
    case TokenType::kInteger:
      return make_constant(token.line, Value::integer(stream_.next().integer));
    case TokenType::kReal:
      return make_constant(token.line, Value::real(stream_.next().real));
    default:
      break;
  }
  if (stream_.is_op("[")) return parse_list();
  if (stream_.is_op("{")) return parse_dict();
  if (!stream_.skip_op("(")) fail_syntax(token.line, "unexpected '{}'", describe(token));
  ExprPtr expr = parse_tuple(true, {}, true);
  stream_.expect_op(")");
  return expr;
}

ExprPtr ExpressionParser::parse_name() {
  const Token& token = stream_.next();
  if (token.text == "true" || token.text == "True") return make_constant(token.line, Value::boolean(true));
  if (token.text == "false" || token.text == "False") return make_constant(token.line, Value::boolean(false));
  if (token.text == "none" || token.text == "None") return make_constant(token.line, Value::none());
  return make(token.line, NameExpr{token.text, {}});
}

ExprPtr ExpressionParser::parse_list() {
  const int line = stream_.next().line;
  SequenceExpr list{{}, false};
  while (!stream_.is_op("]")) {
    if (!list.items.empty()) stream_.expect_op(",");
    if (stream_.is_op("]")) break;
    list.items.push_back(parse_expression());
  }
  stream_.expect_op("]");
  return make(line, std::move(list));
}

ExprPtr ExpressionParser::parse_dict() {
  const int line = stream_.next().line;
  DictExpr dict;
  while (!stream_.is_op("}")) {
    if (!dict.items.empty()) stream_.expect_op(",");
    if (stream_.is_op("}")) break;
    ExprPtr key = parse_expression();
    stream_.expect_op(":");
    dict.items.emplace_back(std::move(key), parse_expression());
  }
  stream_.expect_op("}");
  return make(line, std::move(dict));
}

ExprPtr ExpressionParser::parse_postfix(ExprPtr expr) {
  while (true) {
    if (stream_.is_op(".") || stream_.is_op("[")) {
      expr = parse_subscript(std::move(expr));
    } else if (stream_.is_op("(")) {
      expr = parse_call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr ExpressionParser::parse_postfix_filters(ExprPtr expr) {
  while (true) {
    if (stream_.skip_op("|")) {
      expr = parse_filters(std::move(expr));
    } else if (stream_.is_name("is")) {
      expr = parse_test(std::move(expr));
    } else if (stream_.is_op("(")) {
      expr = parse_call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr ExpressionParser::parse_subscript(ExprPtr object) {
  const Token& token = stream_.next();
  if (token.text == ".") {
    const Token& name = stream_.next();
    if (name.type == TokenType::kName) return make(token.line, AttributeExpr{std::move(object), name.text});
    if (name.type != TokenType::kInteger) fail_syntax(name.line, "expected name or number");
    return make(token.line, ItemExpr{std::move(object), make_constant(name.line, Value::integer(name.integer))});
  }
  SequenceExpr keys{{}, true};
  while (!stream_.is_op("]")) {
    if (!keys.items.empty()) stream_.expect_op(",");
    ExprPtr start = stream_.is_op(":") ? nullptr : parse_expression();
    if (!stream_.is_op(":")) {
      keys.items.push_back(std::move(start));
      continue;
    }
    if (!keys.items.empty()) fail_syntax(token.line, "a slice cannot be part of a tuple of subscripts");
    return parse_slice_rest(std::move(object), std::move(start), token.line);
  }
  stream_.expect_op("]");
  ExprPtr key = keys.items.size() == 1 ? std::move(keys.items.front()) : make(token.line, std::move(keys));
  return make(token.line, ItemExpr{std::move(object), std::move(key)});
}

ExprPtr ExpressionParser::parse_slice_rest(ExprPtr object, ExprPtr start, int line) {
  const auto optional_part = [&]() -> ExprPtr {
    if (stream_.is_op(":") || stream_.is_op("]") || stream_.is_op(",")) return nullptr;
    return parse_expression();
  };
  stream_.expect_op(":");
  ExprPtr stop = optional_part();
  ExprPtr step = stream_.skip_op(":") ? optional_part() : nullptr;
  stream_.expect_op("]");
  return make(line, SliceExpr{std::move(object), std::move(start), std::move(stop), std::move(step)});
}

ExprPtr ExpressionParser::parse_call(ExprPtr callee) {
  const int line = stream_.line();
  ArgumentExprs arguments = parse_arguments();
  return make(line, CallExpr{std::move(callee), std::move(arguments)});
}

ArgumentExprs ExpressionParser::parse_arguments() {
  const int line = stream_.line();
  stream_.expect_op("(");
  ArgumentExprs arguments;
  for (bool first = true; !stream_.is_op(")"); first = false) {
    if (!first) stream_.expect_op(",");
    if (!first && stream_.is_op(")")) break;
    parse_argument(arguments, line);
  }
  stream_.expect_op(")");
  return arguments;
}

void ExpressionParser::parse_argument(ArgumentExprs& arguments, int line) {
  const auto require = [&](bool valid) {
    if (!valid) fail_syntax(line, "invalid syntax for function call expression");
  };
  const bool no_spread = arguments.spread == nullptr && arguments.spread_named == nullptr;
  if (stream_.skip_op("*")) {
    require(no_spread);
    arguments.spread = parse_expression();
  } else if (stream_.skip_op("**")) {
    require(arguments.spread_named == nullptr);
    arguments.spread_named = parse_expression();
  } else if (stream_.is(TokenType::kName) && stream_.ahead().type == TokenType::kOperator &&
             stream_.ahead().text == "=") {
    require(arguments.spread_named == nullptr);
    std::string name = stream_.next().text;
    stream_.next();
    for (const auto& [other, value] : arguments.named) {
      if (other == name) fail_syntax(line, "keyword argument repeated: {}", name);
    }
    arguments.named.emplace_back(std::move(name), parse_expression());
  } else {
    require(no_spread && arguments.named.empty());
    arguments.positional.push_back(parse_expression());
  }
}

std::string ExpressionParser::parse_dotted_name() {
  std::string name = stream_.expect(TokenType::kName).text;
  while (stream_.skip_op(".")) name += "." + stream_.expect(TokenType::kName).text;
  return name;
}

ExprPtr ExpressionParser::parse_filters(ExprPtr input) {
  do {
    const int line = stream_.line();
    std::string name = parse_dotted_name();
    ArgumentExprs arguments = stream_.is_op("(") ? parse_arguments() : ArgumentExprs{};
    const Native* filter = find_filter(name);
    input = make(line, FilterExpr{std::move(input), std::move(name), filter, std::move(arguments)});
  } while (stream_.skip_op("|"));
  return input;
}

ExprPtr ExpressionParser::parse_test(ExprPtr input) {
  const int line = stream_.next().line;
  const bool negated = stream_.skip_name("not");
  std::string name = parse_dotted_name();
  ArgumentExprs arguments;
  const bool literal = stream_.is(TokenType::kString) || stream_.is(TokenType::kInteger) ||
                       stream_.is(TokenType::kReal) || stream_.is_op("[") || stream_.is_op("{");
  if (stream_.is_op("(")) {
    arguments = parse_arguments();
  } else if (literal || (stream_.is(TokenType::kName) && !stream_.is_name_of({"else", "or", "and"}))) {
    if (stream_.is_name("is")) fail_syntax(stream_.line(), "You cannot chain multiple tests with is");
    arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  const Native* test = find_test(name);
  ExprPtr expr = make(line, TestExpr{std::move(input), std::move(name), test, std::move(arguments)});
  return negated ? make(line, UnaryExpr{UnaryExpr::Op::kNot, std::move(expr)}) : std::move(expr);
}

}  // namespace dspark::jinja
