// The texts that come with a model file, its tokenizer and chat template, and how both make a prompt. Loading thread,
// where nothing else is said.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/model_file.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace dspark {

// From tokenizer.ggml.* of a GGUF file, or tokenizer.json of a folder.
Result<Tokenizer> load_tokenizer(const ModelFile& file);

// The model's own, or ChatML where it has none.
Result<ChatTemplate> load_chat_template(const ModelFile& file);

// The prompt of a conversation as text. Fills in the texts of BOS and EOS, and brings contents into the template's
// form. Any thread.
Result<std::string> render_chat(const ChatTemplate& chat_template, const Tokenizer& tokenizer, ChatInput input);

// Tokens of a rendered prompt: special tokens in it count, and a BOS that the template wrote is not doubled. Any
// thread.
std::vector<int32_t> encode_rendered(const Tokenizer& tokenizer, std::string_view prompt, int threads);

}  // namespace dspark
