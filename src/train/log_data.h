// From the access log of a server that keeps texts (--log-prompts) to conversations that a drafter can be trained on.
// Main thread.
#pragma once

#include <string>

#include "text/tokenizer.h"
#include "train/train_data.h"

namespace dspark {

struct LogDataTotals {
  int64_t conversations = 0;
  int64_t answer_tokens = 0;
  int64_t repeated = 0;  // that the log has more than once, and are written once
  int64_t left_out = 0;  // other requests: failed, without texts, of several choices, beyond the context
};

// Writes the log's answers as `dspark data generate` writes what it generates, a line each; the end token is not among
// their tokens. The log has texts, not tokens: a request counts only if its texts have as many tokens as the log says,
// so that they are those that the model has seen and written. kCorrupt names a broken line; a torn last one, which the
// server may just be writing, is left out.
Result<LogDataTotals> write_log_data(const std::string& log_path, const Tokenizer& tokenizer, int context,
                                     const std::string& out_path);

}  // namespace dspark
