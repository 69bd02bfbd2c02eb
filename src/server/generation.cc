// See generation.h.
#include "server/generation.h"

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/metrics.h"
#include "text/base64.h"

namespace dspark {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

class Generation final : public EngineCall {
 public:
  Generation(CallContext context, RequestRecord record, std::shared_ptr<HttpExchange> exchange, AnswerOptions options,
             const Tokenizer& tokenizer, bool keep_text)
      : EngineCall(std::move(context), std::move(record), std::move(exchange)),
        stream_(options.stream),
        keep_text_(keep_text),
        choices_(options.choices),
        newest_(options.prompts.size() * static_cast<size_t>(options.choices)),
        answer_(make_answer(std::move(options), tokenizer)) {}

 private:
  bool ready() const override { return !stream_ || !sending(); }

  void on_event(QueuedEvent& event) override {
    if (auto* prompt = std::get_if<PromptReady>(&event.what)) {
      answer_->on_prompt(event.part, prompt->stats, prompt->logprobs);
    } else if (auto* token = std::get_if<AnswerToken>(&event.what)) {
      measure(event, token->choice);
      answer_->on_token(event.part, *token);
    } else if (auto* ended = std::get_if<ChoiceEnded>(&event.what)) {
      ended->end.text = ended->text;
      record().finish_reasons.emplace_back(finish_reason_name(ended->end.reason));
      answer_->on_choice_end(event.part, ended->end);
    }
  }

  void measure(const QueuedEvent& event, int choice) {
    Clock::time_point& before = newest_[static_cast<size_t>(event.part * choices_ + choice)];
    if (record().ttft_seconds < 0) record().ttft_seconds = seconds(event.at - arrival());
    if (before != Clock::time_point{}) {
      const double gap = seconds(event.at - before);
      context().metrics.token_gap(gap);
      record().itl_seconds.push_back(gap);
    }
    before = event.at;
  }

  void after_events() override {
    if (stream_) send(answer_->take_stream());
  }

  // The status line waits for the first event, so that what fails before it has a status of its own.
  void send(std::string bytes) {
    if (bytes.empty()) return;
    if (!std::exchange(begun_, true)) {
      HttpResponse head{.content_type = "text/event-stream; charset=utf-8", .headers = context().headers};
      head.headers.emplace_back("Cache-Control", "no-cache");
      head.headers.emplace_back("X-Accel-Buffering", "no");
      exchange().begin_stream(head);
    }
    exchange().send(bytes);
  }

  void on_failed(const ApiError& error) override {
    keep_answer();
    if (!begun_) return respond(error_response(error));
    send(answer_->take_stream() + Answer::error_event(error));
    exchange().end_stream();
  }

  void on_finished() override {
    keep_answer();
    if (!stream_) return respond({.body = answer_->whole()});
    send(answer_->finish_stream());
    exchange().end_stream();
  }

  void keep_answer() {
    if (keep_text_) record().answer_text = answer_->all_text();
  }

  const bool stream_;
  const bool keep_text_;
  const int choices_;
  bool begun_ = false;
  std::vector<Clock::time_point> newest_;  // token of each choice
  std::unique_ptr<Answer> answer_;
};

class Embedding final : public EngineCall {
 public:
  Embedding(CallContext context, RequestRecord record, std::shared_ptr<HttpExchange> exchange, EmbeddingOptions options)
      : EngineCall(std::move(context), std::move(record), std::move(exchange)), options_(std::move(options)) {
    vectors_.resize(options_.inputs);
  }

 private:
  void on_event(QueuedEvent& event) override {
    if (auto* values = std::get_if<std::vector<float>>(&event.what)) {
      vectors_[static_cast<size_t>(event.part)] = std::move(*values);
    }
  }

  void on_failed(const ApiError& error) override { respond(error_response(error)); }

  void on_finished() override {
    Json data = Json::array();
    for (size_t i = 0; i < vectors_.size(); ++i) {
      if (options_.normalize) normalize(&vectors_[i]);
      data.push_back({{"object", "embedding"}, {"index", i}, {"embedding", shown(vectors_[i])}});
    }
    const int tokens = record().stats.prompt_tokens;
    respond({.body = dump_json({{"id", options_.id},
                                {"object", "list"},
                                {"model", options_.model},
                                {"data", std::move(data)},
                                {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}})});
  }

  static void normalize(std::vector<float>* values) {
    double sum = 0;
    for (const float value : *values) sum += static_cast<double>(value) * static_cast<double>(value);
    if (sum <= 0) return;
    for (float& value : *values) value = static_cast<float>(static_cast<double>(value) / std::sqrt(sum));
  }

  // A list of numbers, or their bits as little-endian floats in base64.
  Json shown(const std::vector<float>& values) const {
    static_assert(std::endian::native == std::endian::little);
    if (!options_.base64) return values;
    return encode_base64({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }

  EmbeddingOptions options_;
  std::vector<std::vector<float>> vectors_;
};

}  // namespace

std::shared_ptr<EngineCall> make_generation(CallContext context, RequestRecord record,
                                            std::shared_ptr<HttpExchange> exchange, AnswerOptions options,
                                            const Tokenizer& tokenizer, bool keep_text) {
  return std::make_shared<Generation>(std::move(context), std::move(record), std::move(exchange), std::move(options),
                                      tokenizer, keep_text);
}

std::shared_ptr<EngineCall> make_embedding(CallContext context, RequestRecord record,
                                           std::shared_ptr<HttpExchange> exchange, EmbeddingOptions options) {
  return std::make_shared<Embedding>(std::move(context), std::move(record), std::move(exchange), std::move(options));
}

}  // namespace dspark
