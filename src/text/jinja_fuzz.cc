// libFuzzer: any bytes as a chat template, rendered over a conversation with tools. Errors are fine; crashes, leaks and
// reads outside a buffer are not.
#include <cstddef>
#include <cstdint>

#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dspark;
  static const auto kMessages = nlohmann::ordered_json::parse(
      R"([{"role":"system","content":"S é"},{"role":"user","content":[{"type":"text","text":"hi\n there"}]},
          {"role":"assistant","content":"","tool_calls":[{"id":"c1","function":{"name":"f","arguments":{"a":[1,2.5,null]}}}]},
          {"role":"tool","tool_call_id":"c1","content":"<3"},{"role":"user","content":"bye 🙂"}])");
  const auto chat_template = ChatTemplate::parse({reinterpret_cast<const char*>(data), size});
  if (!chat_template.ok()) return 0;
  ChatInput input;
  input.messages = kMessages;
  input.tools = nlohmann::ordered_json::parse(R"([{"type":"function","function":{"name":"f","parameters":{"x":{}}}}])");
  input.extra = {{"n", 3}, {"s", "a,b"}, {"d", {{"k", "v"}}}};
  input.now = [] { return std::tm{}; };
  const jinja::Limits limits{.max_steps = 100'000, .max_text_bytes = 1u << 20, .max_memory_bytes = 16u << 20};
  const auto prompt = chat_template->render(input, limits);
  // Every prompt is valid UTF-8 where the input was.
  if (prompt.ok()) (void)nlohmann::ordered_json(*prompt).dump();
  return 0;
}
