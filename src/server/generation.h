// The two kinds of EngineCall: answers in text, and embeddings. Network thread.
#pragma once

#include <memory>

#include "server/answer.h"
#include "server/engine_call.h"

namespace dspark {

// /v1/chat/completions and /v1/completions. `prompts` requests, each of options.choices choices.
std::shared_ptr<EngineCall> make_generation(CallContext context, RequestRecord record,
                                            std::shared_ptr<HttpExchange> exchange, AnswerOptions options,
                                            const Tokenizer& tokenizer, bool keep_text);

struct EmbeddingOptions {
  std::string id;
  std::string model;
  bool base64 = false;
  bool normalize = true;
  size_t inputs = 1;
};

// /v1/embeddings
std::shared_ptr<EngineCall> make_embedding(CallContext context, RequestRecord record,
                                           std::shared_ptr<HttpExchange> exchange, EmbeddingOptions options);

}  // namespace dspark
