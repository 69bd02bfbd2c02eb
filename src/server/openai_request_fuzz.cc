// libFuzzer: any bytes as the body of a request, its first byte chooses the endpoint. Errors are fine; crashes, leaks
// and reads outside a buffer are not, nor an error without a message.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "server/openai_request.h"

namespace {

template <class T>
void check(const dspark::Parsed<T>& parsed) {
  const auto* error = std::get_if<dspark::ApiError>(&parsed);
  if (error == nullptr) return;
  const auto response = dspark::error_response(*error);
  if (error->message.empty() || !nlohmann::json::accept(response.body)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dspark;
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const ApiLimits limits{.vocab = 1000, .max_choices = 8, .max_prompts = 4, .max_body_bytes = 1 << 20};
  switch (data[0] % 6) {
    case 0:
      check(parse_chat(body, limits));
      break;
    case 1:
      check(parse_completions(body, limits));
      break;
    case 2:
      check(parse_embeddings(body, limits));
      break;
    case 3:
      check(parse_detokenize(body, limits));
      break;
    default:
      check(parse_tokenize(body, data[0] % 6 == 4 ? Endpoint::kTokenize : Endpoint::kApplyTemplate, limits));
  }
  return 0;
}
