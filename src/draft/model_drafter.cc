// See model_drafter.h.
#include "draft/model_drafter.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace dspark {

Result<std::unique_ptr<ModelDrafter>> ModelDrafter::load(const ModelFile& file, int target_vocab, ThreadPool& pool,
                                                         Isa isa, const ModelDrafterOptions& options) {
  const std::string& path = file.tensors().path();
  DSPARK_TRY(Model model, Model::load(file, pool, options.load));
  const ModelConfig& config = model.config();
  if (config.vocab != target_vocab) {
    return make_error(
        ErrorCode::kUnsupported,
        "{}: this draft model has a vocabulary of {} tokens, the model has {}; name one of the same family", path,
        config.vocab, target_vocab);
  }
  if (options.kv_type == DType::kQ8_0 && config.head_dim % 32 != 0) {
    return make_error(ErrorCode::kUnsupported, "{}: KV type q8_0 needs a head dimension that 32 divides, this has {}",
                      path, config.head_dim);
  }
  KvCacheOptions cache;
  cache.layers.assign(static_cast<size_t>(config.layers), model.kv_layout(options.kv_type));
  const int64_t blocks = std::max<int64_t>(1, options.kv_positions / kTilePositions);
  cache.memory_bytes = blocks * model.kv_block_bytes(options.kv_type);
  cache.root.kv_type = options.kv_type;
  DSPARK_TRY(std::unique_ptr<KvCache> kv, KvCache::create(std::move(cache)));
  return std::unique_ptr<ModelDrafter>(new ModelDrafter(std::move(model), std::move(kv), pool, isa, options.kv_type));
}

ModelDrafter::ModelDrafter(Model model, std::unique_ptr<KvCache> kv, ThreadPool& pool, Isa isa, DType kv_type)
    : model_(std::move(model)),
      kv_(std::move(kv)),
      pool_(pool),
      ops_(dspark::ops(isa)),
      step_(model_.config(), model_.kv_layout(kv_type), pool, isa) {}

void ModelDrafter::propose(std::span<DraftRequest* const> requests) {
  std::vector<Writer> writers = begin(requests);
  std::vector<Writer*> writing;
  for (;;) {
    writing.clear();
    for (Writer& writer : writers) {
      if (!writer.ended) writing.push_back(&writer);
    }
    if (writing.empty()) return;
    compute(writing);
  }
}

// Brings every sequence to the state before its draft: what the target rejected is dropped, and what is new is pending.
std::vector<ModelDrafter::Writer> ModelDrafter::begin(std::span<DraftRequest* const> requests) {
  std::vector<Writer> writers;
  int budget = kCatchUpRows;
  for (DraftRequest* request : requests) {
    request->draft.clear();
    request->broken = false;
    const int tokens = static_cast<int>(request->tokens.size());
    if (tokens == 0 || request->max_tokens <= 0 || tokens + kMostTokens > model_.config().context) continue;
    Sequence& sequence = sequences_[request->sequence];
    if (!sequence.kv.is_open()) {
      sequence.kv = kv_->open(kv_->announce("", "", {}), {});
      sequence.computed.clear();
    }
    const auto [mine, theirs] =
        std::ranges::mismatch(sequence.computed, request->tokens.first(request->tokens.size() - 1));
    const int common = static_cast<int>(mine - sequence.computed.begin());
    if (!sequence.kv.truncate(common).ok()) {
      sequences_.erase(request->sequence);
      continue;
    }
    sequence.computed.resize(static_cast<size_t>(common));
    if (budget == 0) continue;
    Writer writer = {.request = request, .sequence = &sequence};
    const int count = std::min(budget, tokens - common);
    budget -= count;
    const auto first = request->tokens.begin() + common;
    writer.pending.assign(first, first + count);
    // More of it waits for the next call: nothing is drafted yet.
    const bool whole = common + count == tokens;
    if (reserve(sequence, count + (whole ? kMostTokens : 0), writers)) writers.push_back(std::move(writer));
  }
  return writers;
}

// Memory for so many positions, at the cost of sequences that are not drafted for now.
bool ModelDrafter::reserve(Sequence& sequence, int positions, std::span<const Writer> writers) {
  if (sequence.kv.reserve(positions).ok()) return true;
  for (auto& entry : sequences_) {
    Sequence& other = entry.second;
    const bool needed = &other == &sequence ||
                        std::ranges::any_of(writers, [&](const Writer& writer) { return writer.sequence == &other; });
    if (needed) continue;
    other.kv.close(KvTail::kDrop);
    other.computed.clear();
  }
  return sequence.kv.reserve(positions).ok();
}

// The pending rows of all writers, and from the last of each its next token.
void ModelDrafter::compute(std::span<Writer*> writers) {
  rows_.clear();
  tables_.clear();
  for (const Writer* writer : writers) {
    int position = writer->sequence->kv.length();
    for (size_t i = 0; i < writer->pending.size(); ++i) {
      rows_.push_back(
          {static_cast<int32_t>(tables_.size()), position++, writer->pending[i], i + 1 == writer->pending.size()});
    }
    tables_.push_back(writer->sequence->kv.table());
  }
  const StepOutput out = model_.forward(step_, {rows_, tables_, {}});
  for (Writer* writer : writers) {
    writer->sequence->kv.commit(writer->pending);
    auto& computed = writer->sequence->computed;
    computed.insert(computed.end(), writer->pending.begin(), writer->pending.end());
    writer->pending.clear();
  }
  const auto vocab = static_cast<size_t>(model_.config().vocab);
  pool_.run(static_cast<int>(writers.size()), [&](int i) {
    std::vector<float> maxima;
    draw(*writers[static_cast<size_t>(i)], out.logits + static_cast<size_t>(i) * vocab, maxima);
  });
}

// On a worker.
void ModelDrafter::draw(Writer& writer, const float* logits, std::vector<float>& maxima) {
  DraftRequest& request = *writer.request;
  writer.ended = true;
  const size_t known = request.tokens.size() + writer.tokens.size();
  if (writer.sequence->computed.size() < known) return;  // it is still catching up
  maxima.resize(static_cast<size_t>(survey_size(model_.config().vocab)));
  if (!ops_.survey(logits, model_.config().vocab, maxima.data())) {
    request.broken = true;
    request.draft.clear();
    return;
  }
  const int32_t token = request.sampler->draw(logits, static_cast<int>(known), writer.tokens);
  if (token < 0) return;
  if (writer.tokens.empty()) writer.sequence->bins.clear();
  const int bin = bin_of(logits, token, maxima);
  writer.sequence->bins.push_back(bin);
  writer.survival *= chance(bin);
  request.draft.push_back({token, static_cast<float>(writer.survival), std::numeric_limits<float>::quiet_NaN()});
  writer.tokens.push_back(token);
  writer.pending = {token};
  writer.ended = static_cast<int>(writer.tokens.size()) >= std::min(request.max_tokens, kMostTokens) ||
                 writer.survival < request.least_survival;
}

// By the chance of the token at temperature 1.
int ModelDrafter::bin_of(const float* logits, int32_t token, std::vector<float>& maxima) const {
  const int64_t vocab = model_.config().vocab;
  const float max = maxima[static_cast<size_t>(ops_.argmax(maxima.data(), survey_size(vocab)))];
  const float lowest = -std::numeric_limits<float>::infinity();
  const auto sum = static_cast<double>(ops_.exp_sum(logits, maxima.data(), vocab, max, 1.0f, lowest));
  const double weight =
      std::ldexp(std::exp(static_cast<double>(logits[token]) - static_cast<double>(max)), kWeightBits);
  return std::clamp(static_cast<int>(weight / sum * kBins), 0, kBins - 1);
}

// That the target takes a token of this bin, given those before it.
double ModelDrafter::chance(int bin) const {
  constexpr double kUsualWeight = 8.0;
  const double usual = 0.3 + 0.65 * (bin + 0.5) / kBins;
  const Taken& known = taken_[static_cast<size_t>(bin)];
  return (known.taken + kUsualWeight * usual) / (known.tried + kUsualWeight);
}

void ModelDrafter::verified(const VerifiedDraft& result) {
  constexpr double kFade = 0.998;
  const auto found = sequences_.find(result.sequence);
  if (found == sequences_.end()) return;
  const std::vector<int>& bins = found->second.bins;
  const size_t asked = std::min({static_cast<size_t>(result.accepted) + 1, result.draft.size(), bins.size()});
  for (size_t i = 0; i < asked; ++i) {
    Taken& known = taken_[static_cast<size_t>(bins[i])];
    known.tried = known.tried * kFade + 1.0;
    known.taken = known.taken * kFade + (static_cast<int>(i) < result.accepted ? 1.0 : 0.0);
  }
}

}  // namespace dspark
