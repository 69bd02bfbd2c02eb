// See replay.h.
#include "tools/replay.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

#include "base/json.h"
#include "base/read_file.h"
#include "base/stopwatch.h"

namespace dspark {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kBlock = 128;  // tokens behind each hash of the log
constexpr int64_t kMostLogBytes = int64_t{1} << 30;
constexpr int kMostTokens = 1 << 20;

Status read_sampling(const nlohmann::json& json, const std::string& name, SamplingParams* out) {
  DSPARK_TRY(out->temperature, json_get_or<double>(json, "temperature", 0.0, name));
  DSPARK_TRY(out->top_p, json_get_or<double>(json, "top_p", 1.0, name));
  DSPARK_TRY(out->top_k, json_get_or<int64_t>(json, "top_k", 0, name));
  DSPARK_TRY(out->min_p, json_get_or<double>(json, "min_p", 0.0, name));
  DSPARK_TRY(out->repetition_penalty, json_get_or<double>(json, "repetition_penalty", 1.0, name));
  DSPARK_TRY(out->presence_penalty, json_get_or<double>(json, "presence_penalty", 0.0, name));
  DSPARK_TRY(out->frequency_penalty, json_get_or<double>(json, "frequency_penalty", 0.0, name));
  DSPARK_TRY(out->seed, json_get_or<uint64_t>(json, "seed", 0, name));
  return Ok{};
}

// A request of several prompts as so many requests, each with its part of text, blocks and answer.
Result<std::vector<LoggedRequest>> split(const LoggedRequest& whole, const nlohmann::json& parts,
                                         const std::string& name) {
  std::vector<LoggedRequest> out;
  LoggedRequest bare = whole;
  bare.text.clear(), bare.blocks.clear();
  bare.output_tokens = std::max(1, whole.output_tokens / static_cast<int>(parts.size()));
  size_t byte = 0, block = 0;
  for (const nlohmann::json& part : parts) {
    LoggedRequest& one = out.emplace_back(bare);
    DSPARK_TRY(one.prompt_tokens, json_require<int32_t>(part, "tokens", name));
    DSPARK_TRY(const int64_t bytes, json_get_or<int64_t>(part, "bytes", 0, name));
    const auto blocks = static_cast<size_t>(std::max(0, one.prompt_tokens)) / kBlock;
    if (one.prompt_tokens < 1 || one.prompt_tokens > whole.prompt_tokens || bytes < 0 ||
        static_cast<size_t>(bytes) > whole.text.size() - byte || blocks > whole.blocks.size() - block) {
      return make_error(ErrorCode::kCorrupt, "{}: parts: found {}, expected parts of the prompt", name, part.dump());
    }
    one.text = whole.text.substr(byte, static_cast<size_t>(bytes));
    const auto first = whole.blocks.begin() + static_cast<std::ptrdiff_t>(block);
    one.blocks.assign(first, first + static_cast<std::ptrdiff_t>(blocks));
    byte += static_cast<size_t>(bytes), block += blocks;
  }
  return out;
}

// Nothing for a line that cannot be played: another endpoint, an error, no answer.
Result<std::vector<LoggedRequest>> read_line(std::string_view line, const std::string& name) {
  DSPARK_TRY(const nlohmann::json json, parse_json(line, name, {.max_bytes = 64 << 20, .max_depth = 8}));
  DSPARK_TRY(const std::string endpoint, json_require<std::string>(json, "endpoint", name));
  DSPARK_TRY(const int32_t status, json_require<int32_t>(json, "status", name));
  LoggedRequest out;
  DSPARK_TRY(out.arrival, json_require<double>(json, "arrival", name));
  DSPARK_TRY(out.prompt_tokens, json_require<int32_t>(json, "prompt_tokens", name));
  DSPARK_TRY(out.output_tokens, json_require<int32_t>(json, "output_tokens", name));
  DSPARK_TRY(out.tenant, json_get_or<std::string>(json, "tenant", "", name));
  DSPARK_TRY(out.bucket, json_get_or<std::string>(json, "bucket", "other", name));
  DSPARK_TRY(out.text, json_get_or<std::string>(json, "prompt", "", name));
  DSPARK_TRY(out.blocks, json_get_or<std::vector<std::string>>(json, "blocks", {}, name));
  const nlohmann::json sampling = json.value("sampling", nlohmann::json::object());
  DSPARK_RETURN_IF_ERROR(read_sampling(sampling, name, &out.sampling));
  DSPARK_TRY(out.choices, json_get_or<int32_t>(sampling, "n", 1, name));
  if (endpoint == "embeddings" || status != 200 || out.output_tokens < 1 || out.prompt_tokens < 1 ||
      out.prompt_tokens > kMostTokens || out.output_tokens > kMostTokens || out.choices < 1) {
    return std::vector<LoggedRequest>();
  }
  const nlohmann::json parts = json.value("parts", nlohmann::json::array());
  if (parts.is_array() && !parts.empty()) return split(out, parts, name);
  return std::vector<LoggedRequest>{std::move(out)};
}

// `count` tokens that depend on `name` only.
void append_tokens(const std::string& name, size_t count, int32_t vocab, std::vector<int32_t>* out) {
  std::mt19937_64 random(std::hash<std::string>()(name));
  for (size_t i = 0; i < count; ++i) out->push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(vocab)));
}

// What the listeners of a replay share.
struct Board {
  std::mutex mutex;
  std::condition_variable changed;
  size_t open = 0;
  Status failed = Ok{};
};

class Player final : public RequestListener {
 public:
  Player(Board& board, RequestTimes& times) : board_(board), times_(times), sent_(Clock::now()) {}

  bool on_token(const TokenEvent& event) override {
    const Clock::time_point now = Clock::now();
    const auto choice = static_cast<size_t>(event.choice);
    if (newest_.size() <= choice) newest_.resize(choice + 1);
    if (newest_[choice] != Clock::time_point{}) {
      times_.gaps.push_back(std::chrono::duration<double>(now - newest_[choice]).count());
    } else if (times_.first == 0.0) {
      times_.first = std::chrono::duration<double>(now - sent_).count();
    }
    newest_[choice] = now;
    return true;
  }
  void on_choice_end(const ChoiceEnd&) override {}
  void on_end(const Status& status, const RequestStats&) override {
    times_.whole = std::chrono::duration<double>(Clock::now() - sent_).count();
    const std::lock_guard lock(board_.mutex);
    if (!status.ok() && board_.failed.ok()) board_.failed = status;
    --board_.open;
    board_.changed.notify_all();
  }

 private:
  Board& board_;
  RequestTimes& times_;
  const Clock::time_point sent_;
  std::vector<Clock::time_point> newest_;  // token, by choice
};

}  // namespace

Result<LoggedTraffic> read_traffic(const std::string& path) {
  DSPARK_TRY(const std::string text, read_file(path, kMostLogBytes));
  LoggedTraffic out;
  size_t number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    ++number;
    if (line.empty()) continue;
    if (rest.empty() && text.back() != '\n') break;  // a running server is writing it
    DSPARK_TRY(std::vector<LoggedRequest> requests, read_line(line, fmt::format("{}:{}", path, number)));
    if (requests.empty()) ++out.left_out;
    std::ranges::move(requests, std::back_inserter(out.requests));
  }
  if (out.requests.empty()) {
    return make_error(ErrorCode::kNotFound,
                      "{} holds no answered request; record one with `dspark serve --access-log {}`", path, path);
  }
  std::ranges::stable_sort(out.requests, {}, &LoggedRequest::arrival);
  const double first = out.requests.front().arrival;
  for (LoggedRequest& request : out.requests) request.arrival -= first;
  out.with_text = std::ranges::none_of(out.requests, [](const LoggedRequest& r) { return r.text.empty(); });
  return out;
}

LoggedTraffic busiest(const LoggedTraffic& traffic, double seconds, size_t fewest) {
  const auto& requests = traffic.requests;
  size_t best_begin = 0, best_end = 0, begin = 0;
  int64_t tokens = 0, most = -1;
  const auto size = [](const LoggedRequest& r) { return int64_t{r.prompt_tokens} + r.output_tokens; };
  for (size_t end = 0; end < requests.size(); ++end) {
    tokens += size(requests[end]);
    while (requests[end].arrival - requests[begin].arrival > seconds && end - begin >= fewest) {
      tokens -= size(requests[begin++]);
    }
    if (tokens > most) most = tokens, best_begin = begin, best_end = end + 1;
  }
  LoggedTraffic out = {.with_text = traffic.with_text, .left_out = traffic.left_out};
  out.requests.assign(requests.begin() + static_cast<std::ptrdiff_t>(best_begin),
                      requests.begin() + static_cast<std::ptrdiff_t>(best_end));
  const double first = out.requests.front().arrival;
  for (LoggedRequest& request : out.requests) request.arrival -= first;
  return out;
}

std::vector<std::vector<int32_t>> traffic_prompts(const Engine& engine, const LoggedTraffic& traffic) {
  const int32_t vocab = engine.tokenizer().size();
  std::vector<std::vector<int32_t>> out;
  for (size_t i = 0; i < traffic.requests.size(); ++i) {
    const LoggedRequest& request = traffic.requests[i];
    std::vector<int32_t>& tokens = out.emplace_back();
    if (traffic.with_text) tokens = engine.encode_rendered(request.text);
    if (!traffic.with_text) {
      for (const std::string& block : request.blocks) append_tokens(block, kBlock, vocab, &tokens);
      const auto length = static_cast<size_t>(request.prompt_tokens);
      if (tokens.size() < length) append_tokens(fmt::format("end of {}", i), length - tokens.size(), vocab, &tokens);
      tokens.resize(length);
    }
    // An engine with a smaller context than the one that wrote the log keeps the end.
    const auto room = static_cast<size_t>(std::max(1, engine.context() - request.output_tokens));
    if (tokens.size() > room) tokens.erase(tokens.begin(), tokens.end() - static_cast<std::ptrdiff_t>(room));
  }
  return out;
}

Result<Replay> replay(Engine& engine, const LoggedTraffic& traffic, const std::vector<std::vector<int32_t>>& prompts) {
  engine.runner().kv().drop_cached();
  Replay out;
  out.times.resize(traffic.requests.size());
  Board board;
  const Clock::time_point start = Clock::now();
  Status refused = Ok{};
  for (size_t i = 0; i < traffic.requests.size() && refused.ok(); ++i) {
    const LoggedRequest& logged = traffic.requests[i];
    std::this_thread::sleep_until(
        start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(logged.arrival)));
    Request request;
    request.prompt = prompts[i];
    request.sampling = logged.sampling;
    request.sampling.ignore_eos = true;
    request.choices = logged.choices;
    const int each = (logged.output_tokens + logged.choices - 1) / logged.choices;
    request.max_tokens = std::min(each, engine.context() - static_cast<int>(prompts[i].size()));
    request.tenant = logged.tenant;
    request.bucket = logged.bucket;
    out.output_tokens += int64_t{request.max_tokens} * request.choices;
    {
      const std::lock_guard lock(board.mutex);
      ++board.open;
    }
    if (auto id = engine.loop().submit(std::move(request), std::make_shared<Player>(board, out.times[i])); !id.ok()) {
      const std::lock_guard lock(board.mutex);
      --board.open;
      refused = id.error();
    }
  }
  std::unique_lock lock(board.mutex);
  board.changed.wait(lock, [&] { return board.open == 0; });
  out.seconds = seconds_since(start);
  DSPARK_RETURN_IF_ERROR(refused);
  DSPARK_RETURN_IF_ERROR(board.failed);
  return out;
}

}  // namespace dspark
