// See access_log.h.
#include "server/access_log.h"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/log.h"
#include "base/noise.h"
#include "base/printable.h"
#include "base/sha256.h"
#include "server/api_error.h"

namespace dspark {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kBlock = 128;          // tokens
constexpr size_t kMaxWaiting = 65'536;  // lines; more are dropped, and counted

Json block_hashes(const RequestRecord& record, std::string_view salt) {
  Json out = Json::array();
  for (const auto& tokens : record.prompts) {
    Sha256 hash;
    hash.add_field("salt", salt);
    hash.add_field("tenant", record.tenant);
    Sha256Digest parent = hash.finish();
    for (size_t first = 0; first + kBlock <= tokens.size(); first += kBlock) {
      hash.add_field("parent", std::span<const uint8_t>(parent));
      hash.add_field("tokens", {reinterpret_cast<const uint8_t*>(tokens.data() + first), kBlock * sizeof(tokens[0])});
      parent = hash.finish();
      out.push_back(to_hex(parent).substr(0, 16));
    }
  }
  return out;
}

double milliseconds(double seconds) { return std::max(0.0, std::round(seconds * 1e6) / 1e3); }

Json itl_json(std::vector<double> gaps) {
  if (gaps.empty()) return nullptr;
  std::sort(gaps.begin(), gaps.end());
  double sum = 0;
  for (const double gap : gaps) sum += gap;
  const auto at = [&](double part) { return gaps[static_cast<size_t>(part * static_cast<double>(gaps.size() - 1))]; };
  return {{"mean", milliseconds(sum / static_cast<double>(gaps.size()))},
          {"p50", milliseconds(at(0.5))},
          {"p99", milliseconds(at(0.99))},
          {"max", milliseconds(gaps.back())}};
}

}  // namespace

Json log_line(const RequestRecord& record, std::string_view salt, std::string_view salt_id) {
  const SamplingParams& s = record.sampling;
  const auto arrival = std::chrono::duration<double>(record.arrival.time_since_epoch()).count();
  Json line = {{"arrival", std::round(arrival * 1e3) / 1e3},
               {"id", record.id},
               {"endpoint", record.endpoint},
               {"tenant", record.tenant},
               {"key", record.key},
               {"bucket", record.bucket},
               {"stream", record.stream},
               {"status", record.status},
               {"error", record.error.empty() ? Json() : Json(record.error)},
               {"prompt_tokens", record.stats.prompt_tokens},
               {"cached_tokens", record.stats.cached_tokens},
               {"output_tokens", record.stats.output_tokens},
               {"salt", salt_id},
               {"blocks", block_hashes(record, salt)},
               {"sampling",
                {{"temperature", s.temperature},
                 {"top_p", s.top_p},
                 {"top_k", s.top_k},
                 {"min_p", s.min_p},
                 {"repetition_penalty", s.repetition_penalty},
                 {"presence_penalty", s.presence_penalty},
                 {"frequency_penalty", s.frequency_penalty},
                 {"n", record.choices},
                 {"max_tokens", record.max_tokens},
                 {"seed", s.seed}}},
               {"ttft_ms", record.ttft_seconds < 0 ? Json() : Json(milliseconds(record.ttft_seconds))},
               {"itl_ms", itl_json(record.itl_seconds)},
               {"e2e_ms", milliseconds(record.e2e_seconds)},
               {"queue_ms", milliseconds(record.stats.queue_seconds)},
               {"prefill_ms", milliseconds(record.stats.prefill_seconds)},
               {"decode_ms", milliseconds(record.stats.decode_seconds)},
               {"drafted", record.stats.drafted},
               {"accepted", record.stats.accepted},
               {"preemptions", record.stats.preemptions},
               {"finish", record.finish_reasons}};
  for (size_t i = 0; i < record.prompts.size() && record.prompts.size() > 1; ++i) {
    line["parts"].push_back({{"tokens", record.prompts[i].size()}});
  }
  return line;
}

struct AccessLog::Impl {
  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      ready.wait(lock, [&] { return stop || !waiting.empty(); });
      if (waiting.empty()) return;
      const auto records = std::exchange(waiting, {});
      const size_t lost = std::exchange(dropped, 0);
      lock.unlock();
      for (const RequestRecord& record : records) write_line(record);
      if (lost > 0) log(LogLevel::kWarning, "access log: {} lines dropped, the disk is too slow", lost);
      std::fflush(file);
      lock.lock();
    }
  }

  void write_line(const RequestRecord& record) {
    Json line = log_line(record, salt, salt_id);
    if (with_text) {
      line["prompt"] = record.prompt_text;
      line["answer"] = record.answer_text;
      for (size_t i = 0; line.contains("parts") && i < record.prompt_bytes.size(); ++i) {
        line["parts"][i]["bytes"] = record.prompt_bytes[i];
      }
    }
    const std::string text = dump_json(line) + "\n";
    if (std::fwrite(text.data(), 1, text.size(), file) != text.size()) {
      log(LogLevel::kError, "access log: a line cannot be written: errno {}", errno);
    }
  }

  std::FILE* file = nullptr;
  bool with_text = false;
  std::string salt, salt_id;
  std::mutex mutex;
  std::condition_variable ready;
  std::vector<RequestRecord> waiting;
  size_t dropped = 0;
  bool stop = false;
  std::thread thread;
};

AccessLog::AccessLog(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<AccessLog>> AccessLog::open(const std::string& path, bool with_text) {
  auto impl = std::make_unique<Impl>();
  impl->file = std::fopen(path.c_str(), "ae");
  if (impl->file == nullptr) {
    return make_error(ErrorCode::kInvalidArgument, "--access-log: {} cannot be written: errno {}", quote(path), errno);
  }
  impl->with_text = with_text;
  for (int i = 0; i < 4; ++i) impl->salt += fmt::format("{:016x}", random_seed());
  impl->salt_id = to_hex(sha256(impl->salt)).substr(0, 8);
  impl->thread = std::thread([raw = impl.get()] { raw->run(); });
  return std::unique_ptr<AccessLog>(new AccessLog(std::move(impl)));
}

AccessLog::~AccessLog() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stop = true;
  }
  impl_->ready.notify_one();
  impl_->thread.join();
  std::fclose(impl_->file);
}

bool AccessLog::with_text() const { return impl_->with_text; }

void AccessLog::write(RequestRecord record) {
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->waiting.size() >= kMaxWaiting) {
      ++impl_->dropped;
      return;
    }
    impl_->waiting.push_back(std::move(record));
  }
  impl_->ready.notify_one();
}

}  // namespace dspark
