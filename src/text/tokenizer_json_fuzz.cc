// libFuzzer: any bytes as tokenizer.json; where they make a tokenizer, it must encode and decode any text.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dspark;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  auto spec = tokenizer_spec_from_json(input, "");
  if (!spec.ok()) return 0;
  const auto tokenizer = Tokenizer::create(std::move(spec).value());
  if (!tokenizer.ok()) return 0;
  for (const std::string_view text :
       {std::string_view("The <s>quick</s> fox's 1234 \n\t  \xE2\x96\x81 \xE4\xB8\xAD\xE6\x96\x87 e\xCC\x81\xFF"),
        input.substr(0, 512)}) {
    const auto ids = tokenizer->encode(text, {.threads = 2, .min_part_bytes = 8});
    tokenizer->decode(ids);
  }
  return 0;
}
