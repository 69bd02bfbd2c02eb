// The texts that come with a model file: its tokenizer and chat template. Loading thread.
#pragma once

#include "base/result.h"
#include "model/model_file.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace dspark {

// From tokenizer.ggml.* of a GGUF file, or tokenizer.json of a folder.
Result<Tokenizer> load_tokenizer(const ModelFile& file);

// The model's own, or ChatML where it has none.
Result<ChatTemplate> load_chat_template(const ModelFile& file);

}  // namespace dspark
