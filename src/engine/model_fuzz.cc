// libFuzzer: any bytes as the header of a GGUF model whose weights are zeros. Where they make a model and a tokenizer,
// both must work: a few rows run, a prompt is rendered and encoded.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/model_text.h"
#include "engine/runner.h"

namespace dspark {
namespace {

constexpr size_t kWeightBytes = size_t{1} << 20;

void use_text(const ModelFile& file) {
  const auto tokenizer = load_tokenizer(file);
  if (!tokenizer.ok()) return;
  const auto ids = tokenizer->encode("The fox's 1234 \n\t \xE4\xB8\xAD\xFF", {.threads = 1});
  tokenizer->decode(ids);
  const auto chat_template = load_chat_template(file);
  if (!chat_template.ok()) return;
  ChatInput input;
  input.messages = nlohmann::ordered_json::parse(R"([{"role":"user","content":"hi"}])");
  (void)chat_template->render(input, {.max_steps = 10'000, .max_text_bytes = 1u << 16, .max_memory_bytes = 1u << 20})
      .ok();
}

void use_model(const ModelFile& file) {
  const auto runner = Runner::create(file, {.threads = 1, .isa = Isa::kPortable, .kv_memory_bytes = int64_t{16} << 20});
  if (!runner.ok()) return;
  SequenceKv sequence = (*runner)->new_sequence();
  const int32_t last = (*runner)->config().vocab - 1;
  const RunRow rows[] = {{&sequence, 0, false}, {&sequence, last, true}, {&sequence, last / 2, true}};
  (void)(*runner)->run(rows).ok();
}

}  // namespace
}  // namespace dspark

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dspark;
  std::vector<uint8_t> bytes(data, data + size);
  bytes.resize(size + kWeightBytes);
  auto gguf = GgufFile::parse(bytes, "fuzz.gguf");
  if (!gguf.ok()) return 0;
  const ModelFile file(std::move(*gguf));
  use_text(file);
  use_model(file);
  return 0;
}
