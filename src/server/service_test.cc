// Tests of the server over live sockets, with an engine that answers from a script.
#include "server/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <nlohmann/json.hpp>

#include "server/serving_standin.h"
#include "server/socket_client.h"

namespace dspark {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kKeys = R"({"keys": [
  {"name": "alice", "sha256": "2bd806c97f0e00af1a1fc3328fa763a9269723c8db8fac4f93af71db186d6e90", "tenant": "a"},
  {"name": "bob", "sha256": "81b637d8fcd2c6da6359e6963113a1170de795e4b725b84d1e0b4cfd9ec58ce9", "tenant": "b",
   "rights": ["metrics"], "limits": {"max_concurrent": 1, "max_tokens": 10, "max_choices": 2}},
  {"name": "root", "sha256": "4813494d137e1631bba301d5acab6e7bb7aa74ce1185d456565ef51d737677b2", "tenant": "ops",
   "rights": ["admin"]}]})";  // of the keys "alice", "bob" and "root"

// A whole server.
class Server {
 public:
  struct Options {
    Script script = {};
    HttpOptions http = {};
    ServiceOptions service = {
        .names = {.models = {"tiny", "alias", "org/model"}, .limits = {.max_body_bytes = 1 << 20}}};
    int context = 512;
    bool loaded = true;
  };

  explicit Server(Options options) : serving_(std::make_shared<StandinServing>(options.script)) {
    auto http = HttpServer::listen(options.http);
    DSPARK_CHECK(http.ok(), "{}", http.error().message);
    http_ = std::move(http).value();
    service_ = std::make_unique<Service>(*http_, std::move(options.service), nullptr);
    context_ = options.context;
    if (options.loaded) load();
    http_->start(*service_);
  }
  Server() : Server(Options{}) {}
  explicit Server(Script script) : Server(Options{.script = std::move(script)}) {}
  ~Server() {
    http_->stop();
    service_.reset();
    serving_.reset();
  }

  void load() {
    static const ChatTemplate kTemplate = ChatTemplate::chatml();
    service_->set_model(std::make_shared<const ServedModel>(
        ServedModel{.tokenizer = standin_tokenizer(),
                    .chat_template = kTemplate,
                    .serving = *serving_,
                    .context = context_,
                    .vocab = 283,
                    .hidden_size = 2,
                    .fingerprint = "fp_test",
                    .metrics =
                        [] {
                          return std::vector<MetricSample>{{"vllm:num_requests_running", "Running", false, 3}};
                        },
                    .debug_cache =
                        [] {
                          return nlohmann::ordered_json{{"free", 7}};
                        }}));
  }

  int port() const { return http_->port(); }
  StandinServing& serving() { return *serving_; }
  Service& service() { return *service_; }

  std::string text_of(std::string_view method, std::string_view path, std::string_view body,
                      std::string_view headers = "") const {
    return fmt::format("{} {} HTTP/1.1\r\nHost: x\r\n{}Content-Length: {}\r\n\r\n{}", method, path, headers,
                       body.size(), body);
  }
  ClientResponse ask(std::string_view method, std::string_view path, std::string_view body = "",
                     std::string_view headers = "") const {
    SocketClient client(port());
    EXPECT_TRUE(client.send(text_of(method, path, body, headers)));
    return client.response();
  }
  ClientResponse post(std::string_view path, const json& body, std::string_view headers = "") const {
    return ask("POST", path, body.dump(), headers);
  }

 private:
  std::shared_ptr<StandinServing> serving_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<Service> service_;
  int context_;
};

json chat(json more = json::object()) {
  json body = {{"model", "tiny"}, {"messages", {{{"role", "user"}, {"content", "Hi"}}}}};
  body.update(more);
  return body;
}

// The JSON of each event of a stream; the last one must be [DONE].
std::vector<json> events(const std::string& body) {
  std::vector<json> out;
  std::string_view rest = body;
  while (!rest.empty()) {
    const size_t end = rest.find("\n\n");
    EXPECT_NE(end, std::string_view::npos);
    const std::string_view event = rest.substr(0, end);
    EXPECT_TRUE(event.starts_with("data: "));
    rest.remove_prefix(end + 2);
    if (event == "data: [DONE]") {
      EXPECT_TRUE(rest.empty());
      return out;
    }
    out.push_back(json::parse(event.substr(6)));
  }
  ADD_FAILURE() << "no [DONE]";
  return out;
}

template <class Condition>
bool eventually(Condition condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

TEST(Service, ChatAnswersWhole) {
  Server server;
  const auto response = server.post("/v1/chat/completions", chat({{"seed", 7}, {"n", 2}}));
  ASSERT_EQ(response.status, 200) << response.body;
  const json body = json::parse(response.body);
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["model"], "tiny");
  EXPECT_EQ(body["system_fingerprint"], "fp_test");
  ASSERT_EQ(body["choices"].size(), 2u);
  EXPECT_EQ(body["choices"][0]["message"],
            json({{"role", "assistant"}, {"content", "Hello, world"}, {"refusal", nullptr}}));
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["choices"][0]["seed"], 7);
  EXPECT_EQ(body["choices"][1]["seed"], choice_seed(7, 1));
  const int prompt = body["usage"]["prompt_tokens"];
  EXPECT_EQ(prompt, static_cast<int>(server.serving().seen()[0].prompt.size()));
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], prompt / 2);
  EXPECT_EQ(body["usage"]["total_tokens"], prompt + body["usage"]["completion_tokens"].get<int>());
  EXPECT_THAT(response.head, HasSubstr("X-Request-Id: "));
}

TEST(Service, ChatStreamsOneTokenAChunk) {
  Server server(Script{.text = "Hé!"});
  const auto response = server.post(
      "/v1/chat/completions", chat({{"stream", true}, {"stream_options", {{"include_usage", true}}}, {"seed", 1}}));
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_THAT(response.head, HasSubstr("text/event-stream"));
  const auto chunks = events(response.body);
  const auto tokens = standin_tokenizer().encode("Hé!", {.add_special = false});
  ASSERT_EQ(chunks.size(), tokens.size() + 3);  // role, tokens, end, usage
  EXPECT_EQ(chunks[0]["choices"][0]["delta"], json({{"role", "assistant"}, {"content", ""}}));
  std::string text;
  for (size_t i = 1; i <= tokens.size(); ++i) text += chunks[i]["choices"][0]["delta"]["content"].get<std::string>();
  EXPECT_EQ(text, "Hé!");
  EXPECT_EQ(chunks[2]["choices"][0]["delta"], json({{"content", ""}}));  // half of the é
  EXPECT_EQ(chunks[1]["usage"], nullptr);
  const json& last = chunks[tokens.size() + 1]["choices"][0];
  EXPECT_EQ(last["finish_reason"], "stop");
  EXPECT_EQ(last["seed"], 1);
  EXPECT_EQ(chunks.back()["choices"], json::array());
  EXPECT_EQ(chunks.back()["usage"]["completion_tokens"], tokens.size());
}

TEST(Service, CompletionsTakeManyPrompts) {
  Server server;
  const auto response =
      server.post("/v1/completions", {{"prompt", {"a", "bc"}}, {"n", 2}, {"max_tokens", 3}, {"echo", true}});
  ASSERT_EQ(response.status, 200) << response.body;
  const json body = json::parse(response.body);
  ASSERT_EQ(body["choices"].size(), 4u);
  EXPECT_EQ(body["choices"][0]["text"].get<std::string>().substr(0, 2), "aH");
  EXPECT_EQ(body["choices"][3]["text"].get<std::string>().substr(0, 3), "bcH");
  EXPECT_EQ(body["choices"][3]["index"], 3);
  EXPECT_EQ(body["choices"][3]["finish_reason"], "length");
  EXPECT_EQ(body["choices"][1]["seed"], body["choices"][3]["seed"]);
}

TEST(Service, EmbeddingsInBothEncodings) {
  Server server;
  const auto floats = json::parse(server.post("/v1/embeddings", {{"input", {"a", "b"}}}).body);
  ASSERT_EQ(floats["data"].size(), 2u) << floats;
  EXPECT_FLOAT_EQ(floats["data"][1]["embedding"][0], 0.6f);
  EXPECT_FLOAT_EQ(floats["data"][1]["embedding"][1], 0.8f);
  const auto raw = json::parse(
      server.post("/v1/embeddings", {{"input", "a"}, {"encoding_format", "base64"}, {"normalize", false}}).body);
  EXPECT_EQ(raw["data"][0]["embedding"], "AABAQAAAgEA=");  // 3.0f and 4.0f, by Python's struct and base64
  EXPECT_EQ(server.serving().seen()[0].work, Work::kEmbed);
}

TEST(Service, SmallEndpoints) {
  Server server;
  EXPECT_EQ(server.ask("GET", "/health").status, 200);
  const json tokens = json::parse(server.post("/tokenize", {{"prompt", "Hi"}, {"return_token_strs", true}}).body);
  EXPECT_EQ(tokens["count"], 2);
  EXPECT_EQ(tokens["token_strs"], json({"H", "i"}));
  EXPECT_EQ(json::parse(server.post("/detokenize", {{"tokens", tokens["tokens"]}}).body)["prompt"], "Hi");
  const json rendered = json::parse(server.post("/apply-template", chat()).body);
  EXPECT_EQ(rendered["prompt"], "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(json::parse(server.ask("GET", "/v1/models").body)["data"][0]["id"], "tiny");
  EXPECT_EQ(json::parse(server.ask("GET", "/v1/models/alias").body)["id"], "alias");
  for (const char* path : {"/v1/models/org/model", "/v1/models/org%2Fmodel"}) {
    EXPECT_EQ(json::parse(server.ask("GET", path).body)["id"], "org/model") << path;
  }
  for (const char* path : {"/v1/models/other", "/v1/models/alias%2", "/v1/models/alia%zs"}) {
    EXPECT_EQ(server.ask("GET", path).status, 404) << path;
  }
  EXPECT_EQ(json::parse(server.ask("GET", "/debug/cache").body), json({{"free", 7}}));
  EXPECT_EQ(server.ask("GET", "/nothing").status, 404);
  EXPECT_THAT(server.ask("GET", "/tokenize").head, HasSubstr("Allow: POST"));
  SocketClient head(server.port());
  ASSERT_TRUE(head.send("HEAD /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
  head.read_to_end();
  EXPECT_TRUE(head.received().ends_with("\r\n\r\n")) << head.received();  // no body, though a length
}

TEST(Service, MetricsHaveTheNamesOfDashboards) {
  Server server;
  server.post("/v1/chat/completions", chat());
  const std::string text = server.ask("GET", "/metrics").body;
  for (const char* name : {"vllm:time_to_first_token_seconds_bucket", "vllm:inter_token_latency_seconds_count",
                           "vllm:e2e_request_latency_seconds_sum", "vllm:request_queue_time_seconds_sum",
                           "vllm:request_prefill_time_seconds_sum", "vllm:request_decode_time_seconds_sum",
                           "vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:request_success_total",
                           "vllm:num_requests_running{model_name=\"tiny\"} 3"}) {
    EXPECT_THAT(text, HasSubstr(name));
  }
}

TEST(Service, ErrorsHaveOpenAisShape) {
  Server server;
  const auto bad = server.post("/v1/chat/completions", chat({{"temperature", 3000}}));
  EXPECT_EQ(bad.status, 400);
  EXPECT_EQ(json::parse(bad.body), json({{"error",
                                          {{"message", "temperature: found 3000, expected a number from 0 to 1000"},
                                           {"type", "invalid_request_error"},
                                           {"param", "temperature"},
                                           {"code", "invalid_value"}}}}));
  const auto model = server.post("/v1/chat/completions", chat({{"model", "gpt-4"}}));
  EXPECT_EQ(model.status, 404);
  EXPECT_EQ(json::parse(model.body)["error"]["code"], "model_not_found");
  const auto longer = server.post("/v1/completions", {{"prompt", std::string(600, 'x')}});
  EXPECT_EQ(longer.status, 400);
  const json error = json::parse(longer.body)["error"];
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_THAT(error["message"].get<std::string>(), testing::AllOf(HasSubstr("512"), HasSubstr("600")));
  const auto second = server.post("/v1/completions", {{"prompt", {"a", ""}}});
  EXPECT_EQ(json::parse(second.body)["error"]["param"], "prompt[1]");
}

TEST(Service, RefusalsOfTheEngineHaveTheirStatus) {
  const struct {
    ErrorCode code;
    int status;
    bool retry;
  } rows[] = {{ErrorCode::kBusy, 429, true},
              {ErrorCode::kUnavailable, 503, true},
              {ErrorCode::kTooLong, 400, false},
              {ErrorCode::kInvalidArgument, 400, false},
              {ErrorCode::kInternal, 500, false}};
  for (const auto& row : rows) {
    Server server(Script{.refuse = Error{row.code, "because"}});
    const auto response = server.post("/v1/chat/completions", chat());
    EXPECT_EQ(response.status, row.status);
    EXPECT_EQ(response.head.find("Retry-After") != std::string::npos, row.retry);
    EXPECT_EQ(json::parse(response.body)["error"]["message"], "because");
  }
}

TEST(Service, FailureBeforeTheFirstTokenHasAStatusAndLaterAnEvent) {
  Server at_once(Script{.fail_after = 0});
  EXPECT_EQ(at_once.post("/v1/chat/completions", chat({{"stream", true}})).status, 500);
  Server later(Script{.step_time = std::chrono::milliseconds(30), .fail_after = 2});
  EXPECT_EQ(later.post("/v1/chat/completions", chat()).status, 500);
  const auto response = later.post("/v1/chat/completions", chat({{"stream", true}}));
  EXPECT_EQ(response.status, 200);
  const auto chunks = events(response.body);
  ASSERT_EQ(chunks.size(), 4u);  // role, two tokens, the error
  EXPECT_EQ(chunks.back()["error"]["type"], "server_error");
  EXPECT_THAT(chunks.back()["error"]["message"].get<std::string>(), HasSubstr("not numbers"));
}

TEST(Service, DeadlineEndsARequest) {
  Server server(Script{.endless = true, .step_time = std::chrono::milliseconds(1)});
  const auto response = server.post("/v1/chat/completions", chat({{"timeout", 0.05}}));
  EXPECT_EQ(response.status, 504);
  EXPECT_EQ(json::parse(response.body)["error"]["code"], "deadline_exceeded");
}

TEST(Service, LoadingIs503) {
  Server server(Server::Options{.loaded = false});
  EXPECT_EQ(server.ask("GET", "/health").status, 503);
  EXPECT_EQ(json::parse(server.post("/v1/chat/completions", chat()).body)["error"]["code"], "loading");
  server.load();
  EXPECT_TRUE(eventually([&] { return server.ask("GET", "/health").status == 200; }));
}

TEST(Service, HangingUpCancels) {
  Server server(Script{.endless = true, .step_time = std::chrono::milliseconds(1)});
  for (const bool stream : {true, false}) {
    SocketClient client(server.port());
    ASSERT_TRUE(client.send(server.text_of(
        "POST", "/v1/completions", json({{"prompt", "a"}, {"stream", stream}, {"max_tokens", 100'000}}).dump())));
    if (stream) {
      ASSERT_TRUE(client.read_until("data: "));
    }
    ASSERT_TRUE(eventually([&] { return server.serving().running() == 1; }));
    client.hang_up();
    EXPECT_TRUE(eventually([&] { return server.serving().running() == 0; })) << "stream: " << stream;
  }
  EXPECT_TRUE(eventually([&] {
    const std::string aborted = "vllm:request_success_total{model_name=\"tiny\",finished_reason=\"abort\"} 2";
    return server.ask("GET", "/metrics").body.find(aborted) != std::string::npos;
  }));
}

TEST(Service, SlowReaderLosesItsRequestAndNobodyElseDoes) {
  Server::Options options{.script = {.endless = true, .step_time = std::chrono::microseconds(20)}};
  options.service.max_waiting_bytes = 64 << 10;
  Server server(std::move(options));
  SocketClient slow(server.port(), 4096);
  ASSERT_TRUE(slow.send(server.text_of("POST", "/v1/completions",
                                       json({{"prompt", "a"},
                                             {"stream", true},
                                             {"max_tokens", 10'000'000},
                                             {"n", 8},  // so that what the system buffers is full soon
                                             {"logprobs", 3}})
                                           .dump())));
  ASSERT_TRUE(slow.read_until("data: "));
  ASSERT_TRUE(eventually([&] { return server.serving().running() == 1; }));
  EXPECT_EQ(server.post("/v1/completions", {{"prompt", "a"}, {"max_tokens", 20}}).status, 200);
  EXPECT_TRUE(eventually([&] { return server.serving().running() == 0; }));
}

TEST(Service, DrainFinishesWhatRunsAndRefusesTheRest) {
  Server server(Script{.endless = true, .step_time = std::chrono::milliseconds(2)});
  SocketClient running(server.port());
  ASSERT_TRUE(
      running.send(server.text_of("POST", "/v1/completions", json({{"prompt", "a"}, {"max_tokens", 100}}).dump())));
  ASSERT_TRUE(eventually([&] { return server.serving().running() == 1; }));
  std::promise<void> drained;
  server.service().drain(std::chrono::seconds(30), [&] { drained.set_value(); });
  EXPECT_TRUE(eventually([&] { return server.ask("GET", "/health").status == 503; }));
  EXPECT_EQ(server.post("/v1/completions", {{"prompt", "a"}}).status, 503);
  EXPECT_EQ(running.response().status, 200);
  drained.get_future().wait();
}

TEST(Service, DrainWithoutPatienceEndsWhatRuns) {
  Server server(Script{.endless = true, .step_time = std::chrono::milliseconds(1)});
  SocketClient running(server.port());
  ASSERT_TRUE(running.send(
      server.text_of("POST", "/v1/completions", json({{"prompt", "a"}, {"max_tokens", 1'000'000}}).dump())));
  ASSERT_TRUE(eventually([&] { return server.serving().running() == 1; }));
  std::promise<void> drained;
  server.service().drain(std::chrono::milliseconds(20), [&] { drained.set_value(); });
  EXPECT_EQ(running.response().status, 503);
  drained.get_future().wait();
}

Server::Options with_keys(Script script = {}) {
  Server::Options options{.script = std::move(script)};
  auto keys = ApiKeys::parse(kKeys, "keys");
  DSPARK_CHECK(keys.ok(), "{}", keys.error().message);
  options.service.keys = std::move(keys).value();
  return options;
}

std::string bearer(std::string_view key) { return fmt::format("Authorization: Bearer {}\r\n", key); }

TEST(Service, KeysDecideTenantAndRights) {
  Server server(with_keys());
  EXPECT_EQ(server.post("/v1/chat/completions", chat()).status, 401);
  EXPECT_EQ(server.post("/v1/chat/completions", chat(), bearer("mallory")).status, 401);
  EXPECT_EQ(server.post("/v1/chat/completions", chat({{"tenant", "b"}}), bearer("alice")).status, 200);
  ASSERT_EQ(server.serving().seen().size(), 1u);
  EXPECT_EQ(server.serving().seen()[0].tenant, "a");  // what the caller says of it does not count
  EXPECT_EQ(server.ask("GET", "/health").status, 200);
  EXPECT_EQ(server.ask("GET", "/metrics", "", bearer("alice")).status, 403);
  EXPECT_EQ(server.ask("GET", "/metrics", "", bearer("bob")).status, 200);
  EXPECT_EQ(server.ask("GET", "/metrics", "", bearer("root")).status, 200);
  EXPECT_EQ(server.ask("GET", "/debug/cache", "", bearer("bob")).status, 403);
  EXPECT_EQ(server.ask("GET", "/debug/cache", "", bearer("root")).status, 200);
}

TEST(Service, NothingOfATenantsPromptShowsInMetrics) {
  Server server(with_keys());
  server.post("/v1/completions", {{"prompt", "geheim"}, {"user", "geheim"}, {"metadata", {{"task", "geheim"}}}},
              bearer("alice") + "X-Task: geheim\r\n");
  const std::string text = server.ask("GET", "/metrics", "", bearer("root")).body;
  EXPECT_THAT(text, Not(HasSubstr("geheim")));
  EXPECT_THAT(text, Not(HasSubstr("alice")));
  EXPECT_THAT(text, HasSubstr("bucket=\"other\""));
}

TEST(Service, KeysHaveLimits) {
  Server server(with_keys({.endless = true, .step_time = std::chrono::milliseconds(1)}));
  const auto ask = [&](json more) { return server.post("/v1/chat/completions", chat(std::move(more)), bearer("bob")); };
  EXPECT_EQ(ask({{"max_tokens", 11}}).status, 400);
  EXPECT_EQ(ask({{"n", 3}}).status, 400);
  EXPECT_THAT(ask({{"min_tokens", 11}}).body, HasSubstr("min_tokens: found 11, expected at most 10"));
  EXPECT_EQ(json::parse(ask(json::object()).body)["usage"]["completion_tokens"], 10);
  SocketClient first(server.port());
  ASSERT_TRUE(
      first.send(server.text_of("POST", "/v1/chat/completions", chat({{"max_tokens", 10}}).dump(), bearer("bob"))));
  ASSERT_TRUE(eventually([&] { return server.serving().running() == 1; }));
  const auto second = ask(json::object());
  EXPECT_EQ(second.status, 429);
  EXPECT_THAT(second.head, HasSubstr("Retry-After: "));
  EXPECT_EQ(first.response().status, 200);
  EXPECT_EQ(ask(json::object()).status, 200);
}

TEST(Service, PagesOfOtherOriginsMayNotAsk) {
  Server closed;
  EXPECT_EQ(closed.post("/v1/chat/completions", chat(), "Origin: http://evil.example\r\n").status, 403);
  EXPECT_EQ(closed.ask("OPTIONS", "/v1/chat/completions", "", "Origin: http://evil.example\r\n").status, 405);
  Server::Options options;
  options.service.cors_origins = {"http://good.example"};
  Server open(std::move(options));
  EXPECT_EQ(open.post("/v1/chat/completions", chat(), "Origin: http://evil.example\r\n").status, 403);
  const auto good = open.post("/v1/chat/completions", chat(), "Origin: http://good.example\r\n");
  EXPECT_EQ(good.status, 200);
  EXPECT_THAT(good.head, HasSubstr("Access-Control-Allow-Origin: http://good.example"));
  // As a browser asks before OpenAI's client may send what it always sends.
  const auto before = open.ask("OPTIONS", "/v1/chat/completions", "",
                               "Origin: http://good.example\r\nAccess-Control-Request-Method: POST\r\n"
                               "Access-Control-Request-Headers: authorization,content-type,x-stainless-os\r\n");
  EXPECT_EQ(before.status, 204);
  EXPECT_THAT(before.head, HasSubstr("Access-Control-Allow-Headers: authorization,content-type,x-stainless-os\r\n"));
  EXPECT_THAT(open.ask("OPTIONS", "/v1/models", "", "Origin: http://good.example\r\n").head,
              HasSubstr("Access-Control-Allow-Headers: Authorization"));
}

TEST(Service, HeadersNameBucketAndPool) {
  Server server;
  server.post("/v1/chat/completions", chat(), "X-Task: gsm8k\r\nX-Prompt-Type: long\r\n");
  server.post("/v1/chat/completions", chat({{"metadata", {{"task", "humaneval"}}}, {"priority", 5}}),
              "X-Task: gsm8k\r\n");
  EXPECT_EQ(server.post("/v1/chat/completions", chat(), "X-Prompt-Type: wide\r\n").status, 400);
  const auto seen = server.serving().seen();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].bucket, "math");
  EXPECT_EQ(seen[0].pool, RequestClass::kLong);
  EXPECT_EQ(seen[1].bucket, "code");
  EXPECT_EQ(seen[1].priority, -5);
}

TEST(Service, HostileBodiesAreRefusedAndTheServerGoesOn) {
  Server server;
  const auto status = [&](std::string_view body) { return server.ask("POST", "/v1/chat/completions", body).status; };
  EXPECT_EQ(status(""), 400);
  EXPECT_EQ(status("[]"), 400);
  EXPECT_EQ(status("{\"messages\": [{\"role\": \"user\", \"content\": \"\xff\xfe\"}]}"), 400);
  EXPECT_EQ(status(std::string(100'000, '[')), 400);
  EXPECT_EQ(status(R"({"a":)" + std::string(100'000, '{')), 400);
  json many = chat();
  many["stop"] = std::vector<std::string>(10'000, "stop");
  const auto stops = server.post("/v1/chat/completions", many);
  EXPECT_EQ(stops.status, 400);
  EXPECT_THAT(stops.body, HasSubstr("stop: found a list of 10000, expected a string or a list of at most 64"));
  EXPECT_EQ(server.post("/v1/chat/completions", chat()).status, 200);
}

TEST(Service, ManyClientsAtOnce) {
  Server server(Script{.text = "one two three", .step_time = std::chrono::microseconds(100)});
  std::vector<std::future<void>> clients;
  for (int i = 0; i < 24; ++i) {
    clients.push_back(std::async(std::launch::async, [&server, i] {
      for (int k = 0; k < 3; ++k) {
        const auto response = server.post("/v1/chat/completions", chat({{"stream", i % 2 == 0}}));
        EXPECT_EQ(response.status, 200);
        std::string text;
        if (i % 2 != 0) {
          text = json::parse(response.body)["choices"][0]["message"]["content"];
        } else {
          for (const json& chunk : events(response.body)) text += chunk["choices"][0]["delta"].value("content", "");
        }
        EXPECT_EQ(text, "one two three");
      }
    }));
  }
  for (auto& client : clients) client.get();
}

}  // namespace
}  // namespace dspark
