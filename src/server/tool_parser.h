// ToolParser: finds the calls of tools in an answer, in the formats that common models write them in, while it streams.
// Pieces of any size give the same content and calls. One per answer, one thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace dspark {

enum class ToolFormat {
  kNone,
  kHermes,    // <tool_call>{"name": ..., "arguments": {...}}</tool_call>: Hermes, Qwen and most ChatML models
  kLlama3,    // {"name": ..., "parameters": {...}}, several with ';' between them, maybe behind <|python_tag|>
  kDeepSeek,  // <｜tool▁call▁begin｜>, in the forms of V3 and R1 and of V3.1
};

// By name (none, hermes, llama3, deepseek), or with "auto" by the special tokens of the vocabulary, else Hermes.
Result<ToolFormat> tool_format(std::string_view name, const Tokenizer& tokenizer);

// A piece of a call. Its first piece has id and name, the others add to the arguments (JSON text).
struct ToolDelta {
  int index = 0;
  std::string id = {};
  std::string name = {};
  std::string arguments = {};
};

struct ToolParts {
  std::string content;
  std::vector<ToolDelta> calls;
};

class ToolParser {
 public:
  virtual ~ToolParser() = default;
  virtual ToolParts push(std::string_view piece) = 0;
  // What was held back; a call that is not whole is content, unless a part of it has gone out.
  virtual ToolParts finish() = 0;
};

// Ids of calls are `id_prefix` and a number. Null for kNone.
std::unique_ptr<ToolParser> make_tool_parser(ToolFormat format, std::string id_prefix);

}  // namespace dspark
