// See jinja_parser.h. Expressions are in jinja_expressions.cc.
#include "text/jinja_parser.h"

#include <algorithm>

#include "text/jinja_error.h"
#include "text/jinja_expressions.h"

namespace dspark::jinja {
namespace {

using EndTags = std::vector<std::string_view>;

bool is_constant_name(std::string_view name) {
  constexpr std::string_view kConstants[] = {"true", "True", "false", "False", "none", "None"};
  return std::find(std::begin(kConstants), std::end(kConstants), name) != std::end(kConstants);
}

std::string quoted(const EndTags& tags) {
  std::string out;
  for (std::string_view tag : tags) out += fmt::format("{}'{}'", out.empty() ? "" : " or ", tag);
  return out;
}

class Parser {
 public:
  explicit Parser(std::string_view source) : stream_(tokenize(source)), expressions_(stream_) {}

  Program run() {
    Program program;
    program.body = parse_body({});
    return program;
  }

 private:
  // Statements up to one of the tags `ends`, which becomes the current token; up to the end of the template if there
  // are none.
  Body parse_body(const EndTags& ends) {
    Body body;
    if (!ends.empty()) end_tags_.push_back(ends);
    while (!stream_.is(TokenType::kEnd)) {
      const int line = stream_.line();
      if (stream_.is(TokenType::kText)) {
        body.push_back({line, TextStmt{stream_.next().text}});
      } else if (stream_.is(TokenType::kVariableBegin)) {
        stream_.next();
        OutputStmt output;
        output.parts.push_back(expressions_.parse_tuple());
        body.push_back({line, std::move(output)});
        stream_.expect(TokenType::kVariableEnd);
      } else {
        stream_.expect(TokenType::kBlockBegin);
        const bool ended =
            stream_.is(TokenType::kName) && std::find(ends.begin(), ends.end(), stream_.current().text) != ends.end();
        if (ended) break;
        body.push_back(parse_statement());
        stream_.expect(TokenType::kBlockEnd);
      }
    }
    if (!ends.empty() && stream_.is(TokenType::kEnd)) fail_tag({});
    if (!ends.empty()) end_tags_.pop_back();
    return body;
  }

  // The body of a tag: from its end to one of `ends`, whose name is passed.
  Body parse_block(const EndTags& ends, std::string* end = nullptr) {
    stream_.skip_op(":");
    stream_.expect(TokenType::kBlockEnd);
    Body body = parse_body(ends);
    const Token& token = stream_.next();
    if (end != nullptr) *end = token.text;
    return body;
  }

  // An unknown tag, or (without one) the end of the template where a tag is missing.
  [[noreturn]] void fail_tag(std::string_view tag) const {
    std::string message =
        tag.empty() ? "Unexpected end of template." : fmt::format("Encountered unknown tag '{}'.", tag);
    if (!end_tags_.empty()) {
      const bool misplaced = !tag.empty() && std::any_of(end_tags_.begin(), end_tags_.end(), [&](const EndTags& tags) {
        return std::find(tags.begin(), tags.end(), tag) != tags.end();
      });
      message += misplaced
                     ? " You probably made a nesting mistake. Jinja is expecting this tag, but currently looking for "
                     : " Jinja was looking for the following tags: ";
      message += quoted(end_tags_.back()) + ".";
    }
    if (!open_tags_.empty()) {
      message += fmt::format(" The innermost block that needs to be closed is '{}'.", open_tags_.back());
    }
    fail_syntax(stream_.line(), "{}", message);
  }

  Stmt parse_statement() {
    if (!stream_.is(TokenType::kName)) fail_syntax(stream_.line(), "tag name expected");
    const NestingGuard guard(expressions_.depth(), stream_.line());
    const int line = stream_.line();
    const std::string tag = stream_.current().text;
    using Parse = Stmt (Parser::*)(int line);
    constexpr std::pair<std::string_view, Parse> kTags[] = {{"if", &Parser::parse_if},
                                                            {"for", &Parser::parse_for},
                                                            {"set", &Parser::parse_set},
                                                            {"macro", &Parser::parse_macro},
                                                            {"call", &Parser::parse_call},
                                                            {"filter", &Parser::parse_filter},
                                                            {"with", &Parser::parse_with},
                                                            {"print", &Parser::parse_print},
                                                            {"break", &Parser::parse_break},
                                                            {"continue", &Parser::parse_continue},
                                                            {"generation", &Parser::parse_generation}};
    for (const auto& [name, parse] : kTags) {
      if (tag != name) continue;
      stream_.next();
      open_tags_.push_back(tag);
      Stmt statement = (this->*parse)(line);
      open_tags_.pop_back();
      return statement;
    }
    for (std::string_view other : {"extends", "include", "import", "from", "block", "autoescape"}) {
      if (tag == other) fail_syntax(line, "the tag '{}' is not supported in chat templates", tag);
    }
    fail_tag(tag);
  }

  Stmt parse_if(int line) {
    IfStmt statement;
    std::string end;
    do {
      ExprPtr test = expressions_.parse_tuple(false);
      Body body = parse_block({"elif", "else", "endif"}, &end);
      statement.branches.emplace_back(std::move(test), std::move(body));
    } while (end == "elif");
    if (end == "else") statement.otherwise = parse_block({"endif"});
    return {line, std::move(statement)};
  }

  Stmt parse_for(int line) {
    ++for_tags_;
    ForStmt statement{};
    statement.target = parse_target(false, "in");
    statement.test_target = statement.target;
    stream_.expect_name("in");
    statement.iterable = expressions_.parse_tuple(false, "recursive");
    if (stream_.skip_name("if")) statement.test = expressions_.parse_expression();
    statement.recursive = stream_.skip_name("recursive");
    std::string end;
    ++loops_;
    statement.body = parse_block({"endfor", "else"}, &end);
    --loops_;
    statement.has_otherwise = end == "else";
    if (statement.has_otherwise) statement.otherwise = parse_block({"endfor"});
    --for_tags_;
    return {line, std::move(statement)};
  }

  Stmt parse_set(int line) {
    Target target = parse_target(true, {});
    if (stream_.skip_op("=")) return {line, SetStmt{std::move(target), expressions_.parse_tuple()}};
    SetBlockStmt statement{std::move(target), nullptr, {}, {}};
    if (stream_.skip_op("|")) statement.filter = expressions_.parse_filters(nullptr);
    statement.body = parse_block({"endset"});
    return {line, std::move(statement)};
  }

  Stmt parse_macro(int line) {
    MacroStmt statement;
    statement.target = parse_name_target();
    statement.code.name = statement.target.name;
    parse_signature(statement.code);
    parse_code(statement.code, "endmacro");
    return {line, std::move(statement)};
  }

  Stmt parse_call(int line) {
    CallBlockStmt statement;
    if (stream_.is_op("(")) parse_signature(statement.code);
    statement.call = expressions_.parse_expression();
    if (!std::holds_alternative<CallExpr>(statement.call->node)) fail_syntax(line, "expected call");
    parse_code(statement.code, "endcall");
    return {line, std::move(statement)};
  }

  Stmt parse_generation(int line) {
    CallBlockStmt statement;
    parse_code(statement.code, "endgeneration");
    return {line, std::move(statement)};
  }

  // A body that is a function of its own: loops outside it cannot be left from inside.
  void parse_code(MacroCode& code, std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    code.body = parse_block({end});
    loops_ = loops;
  }

  Stmt parse_filter(int line) {
    FilterBlockStmt statement{expressions_.parse_filters(nullptr), {}, {}};
    statement.body = parse_block({"endfilter"});
    return {line, std::move(statement)};
  }

  Stmt parse_with(int line) {
    WithStmt statement;
    while (!stream_.is(TokenType::kBlockEnd)) {
      if (!statement.targets.empty()) stream_.expect_op(",");
      statement.targets.push_back(parse_target(false, {}));
      stream_.expect_op("=");
      statement.values.push_back(expressions_.parse_expression());
    }
    statement.body = parse_block({"endwith"});
    return {line, std::move(statement)};
  }

  Stmt parse_print(int line) {
    OutputStmt statement;
    while (!stream_.is(TokenType::kBlockEnd)) {
      if (!statement.parts.empty()) stream_.expect_op(",");
      statement.parts.push_back(expressions_.parse_expression());
    }
    return {line, std::move(statement)};
  }

  Stmt parse_break(int line) {
    if (loops_ == 0) fail_syntax(line, "'break' outside loop");
    return {line, BreakStmt{}};
  }

  Stmt parse_continue(int line) {
    if (loops_ == 0) fail_syntax(line, "'continue' not properly in loop");
    return {line, ContinueStmt{}};
  }

  void parse_signature(MacroCode& code) {
    stream_.expect_op("(");
    while (!stream_.is_op(")")) {
      if (!code.parameters.empty()) stream_.expect_op(",");
      Target parameter = parse_name_target();
      for (const Target& other : code.parameters) {
        if (other.name == parameter.name) {
          fail_syntax(parameter.line, "duplicate argument '{}' in function definition", parameter.name);
        }
      }
      if (stream_.skip_op("=")) {
        code.defaults.push_back(expressions_.parse_expression());
      } else if (!code.defaults.empty()) {
        fail_syntax(stream_.line(), "non-default argument follows default argument");
      }
      code.parameters.push_back(std::move(parameter));
    }
    stream_.expect_op(")");
  }

  Target parse_name_target() {
    const Token& token = stream_.expect(TokenType::kName);
    if (is_constant_name(token.text)) fail_syntax(token.line, "can't assign to 'const'");
    return {token.line, token.text, {}, {}, {}};
  }

  // A name, with `attributes` also name.attribute, or several of them. `stop`: the name that follows.
  Target parse_target(bool attributes, std::string_view stop) {
    Target tuple{stream_.line(), {}, {}, {}, {}};
    bool has_comma = false;
    while (true) {
      const bool at_end =
          stream_.is(TokenType::kBlockEnd) || stream_.is_op(")") || (!stop.empty() && stream_.is_name(stop));
      if (has_comma && at_end) break;
      tuple.items.push_back(parse_single_target(attributes));
      if (!stream_.skip_op(",")) break;
      has_comma = true;
    }
    if (has_comma) return tuple;
    Target single = std::move(tuple.items.front());
    return single;
  }

  Target parse_single_target(bool attributes) {
    const NestingGuard guard(expressions_.depth(), stream_.line());
    if (stream_.skip_op("(")) {
      Target target = parse_target(attributes, {});
      stream_.expect_op(")");
      return target;
    }
    const bool constant =
        stream_.is(TokenType::kString) || stream_.is(TokenType::kInteger) || stream_.is(TokenType::kReal);
    if (constant) fail_syntax(stream_.line(), "can't assign to 'const'");
    Target target = parse_name_target();
    if (attributes && stream_.skip_op(".")) {
      target.attribute = stream_.expect(TokenType::kName).text;
    } else if (target.name == "loop" && for_tags_ > 0) {
      fail_syntax(target.line, "Can't assign to special loop variable in for-loop target");
    }
    return target;
  }

  TokenStream stream_;
  ExpressionParser expressions_;
  std::vector<EndTags> end_tags_;       // that open blocks look for
  std::vector<std::string> open_tags_;  // of blocks
  int loops_ = 0;                       // that break and continue can leave here
  int for_tags_ = 0;                    // that are open, in whatever functions
};

}  // namespace

Program parse(std::string_view source) { return Parser(source).run(); }

}  // namespace dspark::jinja
