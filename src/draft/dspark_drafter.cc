// See dspark_drafter.h.
#include "draft/dspark_drafter.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace dspark {

Result<std::unique_ptr<DsparkDrafter>> DsparkDrafter::load(const ModelFile& file, const Model& target, ThreadPool& pool,
                                                           Isa isa, std::shared_ptr<NgramStore> store,
                                                           const DsparkOptions& options) {
  const std::string& path = file.tensors().path();
  DSPARK_TRY(DsparkConfig config, read_dspark_config(file));
  DSPARK_RETURN_IF_ERROR(check_target(config, target.config(), options.target_digest, path));
  if (options.kv_type == DType::kQ8_0 && config.backbone.head_dim % 32 != 0) {
    return make_error(ErrorCode::kUnsupported, "{}: KV type q8_0 needs a head dimension that 32 divides, this has {}",
                      path, config.backbone.head_dim);
  }
  ThreadPool& loaders = options.loaders == nullptr ? pool : *options.loaders;
  DSPARK_TRY(DsparkWeights weights, load_dspark_weights(file, config, target, loaders, options.load));
  return std::unique_ptr<DsparkDrafter>(
      new DsparkDrafter(std::move(config), std::move(weights), target, pool, isa, std::move(store), options));
}

DsparkDrafter::DsparkDrafter(DsparkConfig config, DsparkWeights weights, const Model& target, ThreadPool& pool, Isa isa,
                             std::shared_ptr<NgramStore> store, const DsparkOptions& options)
    : config_(std::move(config)),
      weights_(std::move(weights)),
      calibration_(options.calibration),
      store_(std::move(store)),
      pass_(config_, weights_, target, options.kv_type, options.kv_offset, pool, isa),
      head_(config_, weights_, pass_, pool, isa) {}

std::vector<KvLayout> DsparkDrafter::kv_layouts() const {
  return std::vector<KvLayout>(static_cast<size_t>(config_.backbone.layers), pass_.kv_layout());
}

void DsparkDrafter::computed(std::span<const ComputedRow> rows, const float* hidden, int hidden_rows) {
  // The rows of several steps at once cost a fraction of what they cost one step after the other.
  if (waiting_.size() + rows.size() > kWaitingRows) settle();
  // Many are computed in pieces: the working memory of a whole step's would be as large as the drafter, and no faster.
  for (; rows.size() > kWaitingRows; rows = rows.subspan(kWaitingRows)) {
    pass_.inject(rows.first(kWaitingRows), hidden, hidden_rows);
  }
  const size_t width = static_cast<size_t>(config_.backbone.hidden), layers = config_.target_layers.size();
  waiting_hidden_.ensure(layers * kWaitingRows * width);
  for (const ComputedRow& row : rows) {
    for (size_t layer = 0; layer < layers; ++layer) {
      const size_t from = layer * static_cast<size_t>(hidden_rows) + static_cast<size_t>(row.row);
      std::copy_n(hidden + from * width, width,
                  waiting_hidden_.data() + (layer * kWaitingRows + waiting_.size()) * width);
    }
    waiting_.push_back({row.block, row.position, static_cast<int>(waiting_.size())});
  }
}

void DsparkDrafter::settle() {
  pass_.inject(waiting_, waiting_hidden_.data(), kWaitingRows);
  waiting_.clear();
}

// Of a token, given those before it.
double DsparkDrafter::chance(float confidence, uint64_t sequence, int bucket, int position) const {
  if (config_.confidence) {
    const double usual = correction_.corrected(bucket, position, calibration_.chance(confidence, position));
    return by_sequence_.corrected(sequence, usual);
  }
  constexpr double kUsual = 0.6, kUsualWeight = 16.0;
  const Taken& known = taken_[static_cast<size_t>(position)];
  return (known.taken + kUsualWeight * kUsual) / (known.tried + kUsualWeight);
}

void DsparkDrafter::propose(std::span<DraftRequest* const> requests) {
  blocks_.clear();
  drafts_.clear();
  proposals_.assign(requests.size(), {});
  std::vector<DraftRequest*> drafting;
  int predictions = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    DraftRequest& request = *requests[i];
    request.draft.clear();
    request.broken = false;
    const int tokens = std::min(request.max_tokens, max_tokens());
    if (tokens <= 0 || request.tokens.empty()) continue;
    const int anchor = static_cast<int>(request.tokens.size()) - 1;
    const int slots = config_.slots_of(tokens);
    if (config_.lookup) proposals_[i] = store_->of(request.sequence, request.tokens).continuation(slots);
    const int first = std::max(request.context_begin, anchor - request.window);
    blocks_.push_back({anchor, request.tokens.back(), first, slots, request.blocks, proposals_[i]});
    drafts_.push_back({request.sampler, request.tokens.back(), anchor + 1, predictions, tokens});
    drafting.push_back(&request);
    predictions += tokens;
  }
  if (drafting.empty()) return;
  settle();
  pass_.run(blocks_);
  survival_.assign(drafting.size(), 1.0);
  head_.draw(drafts_, [&](size_t i) {
    const HeadDraft& draft = drafts_[i];
    const float confidence = draft.confidences.back();
    const int position = static_cast<int>(draft.tokens.size()) - 1;
    survival_[i] *= chance(confidence, drafting[i]->sequence, drafting[i]->bucket, position);
    drafting[i]->draft.push_back({draft.tokens.back(), static_cast<float>(survival_[i]), confidence});
    return survival_[i] >= drafting[i]->least_survival;
  });
  for (size_t i = 0; i < drafting.size(); ++i) drafting[i]->broken = drafts_[i].broken;
}

void DsparkDrafter::verified(const VerifiedDraft& result) {
  constexpr double kFade = 0.998;
  const int asked = std::min({result.accepted + 1, static_cast<int>(result.draft.size()), kMaxDraftSlots});
  for (int i = 0; i < asked; ++i) {
    const float confidence = result.draft[static_cast<size_t>(i)].confidence;
    if (config_.confidence) {
      by_sequence_.observe(result.sequence, chance(confidence, result.sequence, result.bucket, i), i < result.accepted);
      correction_.observe(result.bucket, i, calibration_.chance(confidence, i), i < result.accepted);
    }
    Taken& known = taken_[static_cast<size_t>(i)];
    known.tried = known.tried * kFade + 1.0;
    known.taken = known.taken * kFade + (i < result.accepted ? 1.0 : 0.0);
  }
}

void DsparkDrafter::release(uint64_t sequence) {
  store_->release(sequence);
  by_sequence_.release(sequence);
}

}  // namespace dspark
