// Prints llama.cpp's logits of a GGUF model for given tokens; verify_llamacpp.py compiles and runs it.
//
//   llamacpp_logits MODEL.gguf < token ids, one a line   > float32 logits [tokens, vocab]
//
// KV in float32, one thread, no flash attention: as close to float arithmetic as llama.cpp offers.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "llama.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: llamacpp_logits MODEL.gguf < tokens\n");
    return 2;
  }
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level >= GGML_LOG_LEVEL_ERROR) {
          std::fputs(text, stderr);
        }
      },
      nullptr);
  std::vector<llama_token> tokens;
  for (int id = 0; std::scanf("%d", &id) == 1;) {
    tokens.push_back(id);
  }
  llama_backend_init();
  llama_model* model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (model == nullptr) {
    return 1;
  }
  llama_context_params params = llama_context_default_params();
  params.n_ctx = 512;
  params.n_batch = 512;
  params.n_ubatch = 512;
  params.n_threads = 1;
  params.n_threads_batch = 1;
  params.type_k = GGML_TYPE_F32;
  params.type_v = GGML_TYPE_F32;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  llama_context* context = llama_init_from_model(model, params);
  llama_batch batch = llama_batch_init(static_cast<int32_t>(tokens.size()), 0, 1);
  for (size_t i = 0; i < tokens.size(); ++i) {
    batch.token[i] = tokens[i];
    batch.pos[i] = static_cast<llama_pos>(i);
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = 1;
  }
  batch.n_tokens = static_cast<int32_t>(tokens.size());
  if (llama_decode(context, batch) != 0) {
    return 1;
  }
  const int32_t vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
  std::fwrite(llama_get_logits(context), sizeof(float) * static_cast<size_t>(vocab), tokens.size(), stdout);
  return 0;
}
