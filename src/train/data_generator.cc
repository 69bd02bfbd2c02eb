// See data_generator.h.
#include "train/data_generator.h"

#include <algorithm>
#include <array>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <unordered_set>

#include "base/cache_dir.h"
#include "base/json.h"
#include "engine/request_stream.h"
#include "train/overlap_filter.h"

namespace dspark {
namespace {

using nlohmann::ordered_json;

constexpr int kMaxPromptTokens = 768;
constexpr int kMaxWrittenPrompt = 192;  // tokens of a user turn that the target writes itself

// One conversation that is to be generated.
struct Job {
  const TrainPrompt* prompt;
  std::string id;  // of prompt and sample
  int sample;
  uint64_t order;
};

// A conversation that is being generated.
struct Dialogue {
  Job job;
  bool writes_prompt = false;  // the target is writing the user's turn
  std::vector<std::string> turns = {};
  std::vector<std::string> replies = {};
  double temperature = 0;
  uint64_t seed = 0;
  std::vector<int32_t> tokens = {};                 // of the conversation so far
  std::vector<std::array<size_t, 2>> answers = {};  // ranges of tokens that the target wrote
};

Request request_of(std::vector<int32_t> prompt, double temperature, uint64_t seed, int max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = temperature;
  request.sampling.seed = seed;
  request.max_tokens = max_tokens;
  return request;
}

class Generation {
 public:
  Generation(Engine& engine, const PromptSources& sources, const DataOptions& options)
      : engine_(engine),
        sources_(sources),
        options_(options),
        answers_(engine.loop(), options.slots),
        filter_(engine.tokenizer(), sources.fixed_instructions) {}

  Result<DataTotals> run(const std::function<bool(const DataTotals&)>& report);

 private:
  Status read_done();
  void plan_jobs();
  Status write_manifest() const;
  Status start(const Job& job);
  Status ask(Dialogue dialogue);
  Status finish(StreamedAnswer answer);
  Status finish_written_prompt(Dialogue dialogue, const StreamedAnswer& answer);
  Status write(const Dialogue& dialogue, bool ended);
  bool target_reached() const { return options_.token_target > 0 && totals_.answer_tokens >= options_.token_target; }

  Engine& engine_;
  const PromptSources& sources_;
  const DataOptions& options_;
  RequestStream answers_;
  OverlapFilter filter_;
  std::deque<Job> jobs_;
  std::unordered_set<std::string> done_;  // ids in the file
  std::map<uint64_t, Dialogue> open_;
  uint64_t next_tag_ = 0;
  std::ofstream out_;
  DataTotals totals_;
};

// What an earlier run has written; a torn last line is cut off.
Status Generation::read_done() {
  std::ifstream in(options_.out, std::ios::binary);
  if (!in) return Ok{};
  std::string line;
  int64_t whole_bytes = 0;
  for (int number = 1; std::getline(in, line) && !in.eof(); ++number) {
    const std::string name = fmt::format("{}:{}", options_.out, number);
    DSPARK_TRY(const nlohmann::json object, parse_json(line, name));
    DSPARK_TRY(std::string id, json_require<std::string>(object, "id", name));
    DSPARK_TRY(const auto turns, json_require<std::vector<std::string>>(object, "turns", name));
    for (const auto& range : object.value("answers", nlohmann::json::array())) {
      if (range.is_array() && range.size() == 2 && range[0].is_number_integer() && range[1].is_number_integer()) {
        totals_.answer_tokens += range[1].get<int64_t>() - range[0].get<int64_t>();
      }
    }
    filter_.seen_before(turns);
    done_.insert(std::move(id));
    ++totals_.conversations;
    whole_bytes += static_cast<int64_t>(line.size()) + 1;
  }
  in.close();
  std::error_code failed;
  std::filesystem::resize_file(options_.out, static_cast<uintmax_t>(whole_bytes), failed);
  if (failed) return make_error(ErrorCode::kInternal, "{}: {}", options_.out, failed.message());
  return Ok{};
}

// First one answer for every prompt, mixed, then the second answers, and so on.
void Generation::plan_jobs() {
  std::vector<Job> jobs;
  for (const PromptSource& source : sources_.sources) {
    for (const TrainPrompt& prompt : source.prompts) {
      for (int sample = 0; sample < source.samples; ++sample) {
        std::string id = fmt::format("{}#{}", prompt.id, sample);
        if (done_.contains(id)) continue;
        const uint64_t order = stable_hash(id, sources_.seed);
        jobs.push_back({&prompt, std::move(id), sample, order});
      }
    }
  }
  std::sort(jobs.begin(), jobs.end(),
            [](const Job& a, const Job& b) { return std::tie(a.sample, a.order) < std::tie(b.sample, b.order); });
  jobs_.assign(std::make_move_iterator(jobs.begin()), std::make_move_iterator(jobs.end()));
}

Status Generation::write_manifest() const {
  ordered_json manifest = {{"model_digest", options_.model_digest},
                           {"seed", sources_.seed},
                           {"temperatures", sources_.temperatures},
                           {"max_tokens", options_.max_tokens},
                           {"evaluation_prompts", sources_.evaluation.size()},
                           {"fixed_instructions", sources_.fixed_instructions},
                           {"conversations", totals_.conversations},
                           {"answer_tokens", totals_.answer_tokens}};
  for (const PromptSource& source : sources_.sources) {
    manifest["sources"].push_back({{"name", source.name},
                                   {"kind", source.kind},
                                   {"licence", source.licence},
                                   {"origin", source.origin},
                                   {"prompts", source.prompts.size()},
                                   {"samples", source.samples}});
  }
  return replace_file(options_.out + ".manifest.json", manifest.dump(1) + "\n");
}

Status Generation::start(const Job& job) {
  Dialogue dialogue = {.job = job, .turns = job.prompt->turns};
  dialogue.seed = stable_hash(job.id, sources_.seed) >> 11;
  std::vector<double> temperatures = sources_.temperatures;
  if (job.sample > 0) std::erase_if(temperatures, [](double t) { return t <= 0; });
  dialogue.temperature = temperatures[stable_hash(job.id + "/temperature", sources_.seed) % temperatures.size()];
  if (dialogue.turns.empty()) {
    // The text before a user's turn, from the template itself: the target goes on from there.
    constexpr std::string_view kMark = "(turn)";
    DSPARK_TRY(const std::string rendered, engine_.render({{{"role", "user"}, {"content", kMark}}}));
    dialogue.writes_prompt = true;
    const std::vector<int32_t> tokens = engine_.encode_rendered(rendered.substr(0, rendered.find(kMark)));
    DSPARK_RETURN_IF_ERROR(answers_.add(next_tag_, request_of(tokens, 1.0, dialogue.seed, kMaxWrittenPrompt)));
    open_.emplace(next_tag_++, std::move(dialogue));
    return Ok{};
  }
  if (job.sample == 0 && filter_.seen_before(dialogue.turns)) {
    ++totals_.dropped_duplicates;
    return Ok{};
  }
  for (const std::string& turn : dialogue.turns) {
    if (!filter_.overlaps(turn)) continue;
    ++totals_.dropped_overlaps;
    return Ok{};
  }
  return ask(std::move(dialogue));
}

// Queues the answer to the next of the dialogue's turns.
Status Generation::ask(Dialogue dialogue) {
  auto messages = ordered_json::array();
  for (size_t i = 0; i <= dialogue.replies.size(); ++i) {
    messages.push_back({{"role", "user"}, {"content", dialogue.turns[i]}});
    if (i < dialogue.replies.size()) messages.push_back({{"role", "assistant"}, {"content", dialogue.replies[i]}});
  }
  const Result<std::string> rendered = engine_.render(messages);
  if (!rendered.ok()) {  // half a character in a reply, a turn that the template refuses
    ++totals_.dropped_unusable;
    return Ok{};
  }
  std::vector<int32_t> tokens = engine_.encode_rendered(*rendered);
  const int room = engine_.context() - static_cast<int>(tokens.size()) - options_.max_tokens;
  if (room < 0 || (dialogue.replies.empty() && static_cast<int>(tokens.size()) > kMaxPromptTokens)) {
    ++totals_.dropped_unusable;
    return Ok{};
  }
  DSPARK_RETURN_IF_ERROR(
      answers_.add(next_tag_, request_of(std::move(tokens), dialogue.temperature, dialogue.seed, options_.max_tokens)));
  open_.emplace(next_tag_++, std::move(dialogue));
  return Ok{};
}

Status Generation::finish_written_prompt(Dialogue dialogue, const StreamedAnswer& answer) {
  const std::string text = engine_.tokenizer().decode(answer.tokens);
  dialogue.turns = {text};
  dialogue.writes_prompt = false;
  if (!answer.end_token || text.find_first_not_of(" \n\t") == std::string::npos) {
    ++totals_.dropped_unusable;
    return Ok{};
  }
  if (filter_.seen_before(dialogue.turns)) {
    ++totals_.dropped_duplicates;
    return Ok{};
  }
  if (filter_.overlaps(text)) {
    ++totals_.dropped_overlaps;
    return Ok{};
  }
  return ask(std::move(dialogue));
}

Status Generation::finish(StreamedAnswer answer) {
  auto node = open_.extract(answer.tag);
  Dialogue& dialogue = node.mapped();
  if (answer.end_token) answer.tokens.push_back(*answer.end_token);
  if (dialogue.writes_prompt) return finish_written_prompt(std::move(dialogue), answer);
  if (filter_.overlaps(answer.tokens)) {
    ++totals_.dropped_overlaps;
    return Ok{};
  }
  // Earlier turns are rendered again for the later ones: their ranges count only if they came back as written.
  const std::vector<int32_t>& before = dialogue.tokens;
  const bool kept =
      before.size() <= answer.prompt.size() && std::equal(before.begin(), before.end(), answer.prompt.begin());
  if (!kept) dialogue.answers.clear();
  dialogue.tokens = std::move(answer.prompt);
  const size_t first = dialogue.tokens.size();
  dialogue.tokens.insert(dialogue.tokens.end(), answer.tokens.begin(), answer.tokens.end());
  dialogue.answers.push_back({first, dialogue.tokens.size()});
  dialogue.replies.push_back(engine_.tokenizer().decode(answer.tokens));
  // A turn that the limit cut is not one to go on from.
  if (answer.end_token && dialogue.replies.size() < dialogue.turns.size()) return ask(std::move(dialogue));
  return write(dialogue, answer.end_token.has_value());
}

Status Generation::write(const Dialogue& dialogue, bool ended) {
  const ordered_json line = {{"id", dialogue.job.id},       {"source", dialogue.job.prompt->source},
                             {"turns", dialogue.turns},     {"temperature", dialogue.temperature},
                             {"seed", dialogue.seed},       {"tokens", dialogue.tokens},
                             {"answers", dialogue.answers}, {"ended", ended}};
  out_ << line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << '\n' << std::flush;
  if (!out_) return make_error(ErrorCode::kInternal, "{}: cannot be written; is the disk full?", options_.out);
  ++totals_.conversations;
  for (const auto& [first, end] : dialogue.answers) totals_.answer_tokens += static_cast<int64_t>(end - first);
  return Ok{};
}

Result<DataTotals> Generation::run(const std::function<bool(const DataTotals&)>& report) {
  for (const std::string& text : sources_.evaluation) filter_.add_evaluation(text);
  DSPARK_RETURN_IF_ERROR(read_done());
  plan_jobs();
  DSPARK_RETURN_IF_ERROR(write_manifest());
  out_.open(options_.out, std::ios::binary | std::ios::app);
  if (!out_) return make_error(ErrorCode::kInvalidArgument, "{}: cannot be opened for writing", options_.out);
  while (!target_reached()) {
    while (answers_.has_room() && !jobs_.empty()) {
      DSPARK_RETURN_IF_ERROR(start(jobs_.front()));
      jobs_.pop_front();
    }
    if (answers_.active() == 0) break;
    DSPARK_TRY(std::vector<StreamedAnswer> answers, answers_.take());
    for (StreamedAnswer& answer : answers) DSPARK_RETURN_IF_ERROR(finish(std::move(answer)));
    if (!report(totals_)) break;
  }
  DSPARK_RETURN_IF_ERROR(write_manifest());
  return totals_;
}

}  // namespace

Result<DataTotals> generate_data(Engine& engine, const PromptSources& sources, const DataOptions& options,
                                 const std::function<bool(const DataTotals&)>& report) {
  DSPARK_TRY(const FileLock lock, FileLock::acquire(options.out + ".lock", [](auto&&...) { return true; }));
  Generation generation(engine, sources, options);
  return generation.run(report);
}

}  // namespace dspark
