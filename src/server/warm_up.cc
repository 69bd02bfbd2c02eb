// See warm_up.h.
#include "server/warm_up.h"

#include <nlohmann/json.hpp>

#include "base/mmap.h"
#include "base/printable.h"
#include "engine/model_text.h"
#include "engine/request_stream.h"
#include "server/openai_request.h"
#include "server/prepare.h"

namespace dspark {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kTogether = 16;  // requests in the engine at once

Result<std::string> optional_text(const Json& line, const char* field) {
  const auto found = line.find(field);
  if (found == line.end() || found->is_null()) return std::string();
  if (!found->is_string())
    return make_error(ErrorCode::kCorrupt, "{}: found {}, expected a string", field, found->dump());
  return found->get<std::string>();
}

Result<Request> read_line(std::string_view text, const ServedModel& model, const ApiKeys& keys) {
  auto parsed = parse_tokenize(text, Endpoint::kTokenize, {.vocab = model.vocab});
  if (const auto* error = std::get_if<ApiError>(&parsed)) return make_error(ErrorCode::kCorrupt, "{}", error->message);
  const TokenizeCall& call = std::get<TokenizeCall>(parsed);
  const Json line = Json::parse(text);  // it is an object: parse_tokenize has seen it
  Request request;
  DSPARK_TRY(request.tenant, optional_text(line, "tenant"));
  DSPARK_TRY(request.cache_salt, optional_text(line, "cache_salt"));
  DSPARK_TRY(const std::string endpoint, optional_text(line, "endpoint"));
  if (!keys.has_tenant(request.tenant)) {
    return make_error(ErrorCode::kCorrupt, "tenant: found {}, expected {}", quote(request.tenant),
                      keys.required() ? "one that --api-keys names" : "none, there are no keys");
  }
  if (endpoint == "chat" && !call.conversation) {  // an access log has the rendered conversation
    request.prompt = encode_rendered(model.tokenizer, call.text, model.tokenizer_threads);
  } else {
    DSPARK_TRY(request.prompt, tokens_of(model, call));
  }
  if (request.prompt.empty()) return make_error(ErrorCode::kCorrupt, "prompt: found no token, expected some");
  request.max_tokens = 0;
  request.pin = true;
  request.bucket = "other";
  return request;
}

}  // namespace

Result<std::vector<Request>> read_warm_up(const std::string& path, const ServedModel& model, const ApiKeys& keys) {
  DSPARK_TRY(const MappedFile file, MappedFile::open(path));
  std::string_view rest(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  std::vector<Request> out;
  for (int number = 1; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(rest.size(), end + 1));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    Result<Request> request = read_line(line, model, keys);
    if (!request.ok()) {
      return make_error(request.error().code, "{}, line {}: {}", quote(path), number, request.error().message);
    }
    out.push_back(std::move(*request));
  }
  return out;
}

Status warm_up(Serving& serving, std::vector<Request> requests) {
  RequestStream stream(serving, kTogether);
  for (size_t asked = 0; asked < requests.size() || stream.active() > 0;) {
    for (; stream.has_room() && asked < requests.size(); ++asked) {
      DSPARK_RETURN_IF_ERROR(stream.add(asked, std::move(requests[asked])));
    }
    if (const auto done = stream.take(); !done.ok()) return done.error();
  }
  return Ok{};
}

}  // namespace dspark
