// The plan of one step. See schedule.h.
#include "schedule/schedule.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace dspark {
namespace {

constexpr int kFirstChunk = 64;  // rows of prompts beside decodes, before anything has been measured

int pool_index(Pool pool) { return static_cast<int>(pool); }

// A sequence that wants prompt rows: waiting or running.
struct Candidate {
  const PlanSequence* sequence;
  bool waiting;
  double score = 0.0;  // by policy, the lowest first
  int overtaken = 0;   // including what this plan adds
  int rows = 0;        // planned
  bool done = false;   // nothing more for it in this pass

  int pending() const { return sequence->tokens - sequence->ready - rows; }
};

class Planner {
 public:
  Planner(const ScheduleState& state, const ScheduleOptions& options)
      : state_(state),
        options_(options),
        pooled_(options.pool_shares[0] > 0.0 || options.pool_shares[1] > 0.0),
        free_(state.free_blocks) {}

  Plan plan() {
    order_running();
    plan_decodes();
    find_candidates();
    plan_prompts();
    if (plan_.decodes.empty() && plan_.chunks.empty()) force_one();
    finish();
    return std::move(plan_);
  }

 private:
  int64_t blocks_for(int64_t positions) const {
    return (positions + options_.block_positions - 1) / options_.block_positions;
  }

  // The most senior first: the others give way to it.
  void order_running() {
    for (const PlanSequence& sequence : state_.running) running_.push_back(&sequence);
    std::sort(running_.begin(), running_.end(), [](const PlanSequence* a, const PlanSequence* b) {
      return std::tuple(-a->priority, a->arrival, a->id) < std::tuple(-b->priority, b->arrival, b->id);
    });
  }

  void preempt_last() {
    free_ += running_.back()->own_blocks;
    plan_.preempted.push_back(running_.back()->id);
    running_.pop_back();
  }

  void plan_decodes() {
    for (size_t i = 0; i < running_.size(); ++i) {
      const PlanSequence& sequence = *running_[i];
      if (sequence.decode_rows == 0) continue;
      const int64_t more = std::max<int64_t>(0, blocks_for(sequence.ready + sequence.decode_rows) - sequence.blocks);
      while (more > free_ && running_.size() > i + 1) preempt_last();
      if (more > free_) {  // the last of them
        if (i == 0) {
          plan_.exhausted.push_back(sequence.id);
          running_.pop_back();
        } else {
          preempt_last();
        }
        return;
      }
      free_ -= more;
      plan_.decodes.push_back({sequence.id, sequence.decode_rows});
      plan_.decode_rows += sequence.decode_rows;
    }
  }

  double score(const PlanSequence& sequence) const {
    const double tokens = std::max(1, sequence.tokens);
    switch (options_.policy) {
      case SchedulePolicy::kHitRate:
        return -sequence.ready / tokens;
      case SchedulePolicy::kLatencyAware: {
        const double usual = state_.usual_seconds[static_cast<size_t>(pool_index(sequence.pool))];
        return -sequence.age_seconds / (usual > 0.0 ? usual : 1.0);
      }
      case SchedulePolicy::kHybrid:
        return sequence.tokens - sequence.ready;
    }
    return 0.0;
  }

  void find_candidates() {
    slots_ = options_.max_running;
    for (const PlanSequence* sequence : running_) {
      slots_ -= sequence->branches;
      if (sequence->decode_rows > 0) continue;
      candidates_.push_back({sequence, false, score(*sequence), sequence->overtaken});
      promised_ += std::max<int64_t>(0, promise(*sequence) - sequence->blocks);
    }
    if (!plan_.preempted.empty()) return;  // what was given back was not given back for newcomers
    for (const PlanSequence& sequence : state_.waiting) {
      candidates_.push_back({&sequence, true, score(sequence), sequence.overtaken});
    }
    find_gate();
  }

  // Blocks of the whole prompt, its first token and its branches' own last blocks.
  int64_t promise(const PlanSequence& sequence) const {
    return blocks_for(int64_t{sequence.tokens} + 1) + sequence.branches - 1;
  }

  // One that may not be overtaken any more, or whose answer was interrupted.
  bool due(const Candidate& candidate) const {
    return candidate.sequence->answered || candidate.overtaken >= options_.max_overtaken;
  }

  auto rank(const Candidate& candidate) const {
    const PlanSequence& s = *candidate.sequence;
    const bool first = due(candidate);
    return std::tuple(-s.priority, !first, first ? 0.0 : candidate.score, s.arrival, s.id);
  }

  // Sequences that will decode beside those of this step, as soon as their prompts are computed.
  int coming() const {
    int started = 0, waiting = 0;
    for (const Candidate& candidate : candidates_) {
      (candidate.waiting ? waiting : started) += candidate.sequence->branches;
    }
    return started + std::clamp(waiting, 0, std::max(0, slots_));
  }

  // Rows that prompts may have beside the decodes.
  int prompt_limit() const {
    const int decodes = plan_.decode_rows;
    if (decodes == 0) return options_.max_rows;
    if (options_.step_budget > 0) {
      return std::clamp(options_.step_budget - decodes, std::max(1, options_.step_budget / 4), options_.max_rows);
    }
    if (state_.cost == nullptr || !state_.cost->known()) return std::min(kFirstChunk, options_.max_rows);
    // Prompts may double a step that will be long by its decodes alone, or answers would keep prompts out for good.
    const double most = std::max(options_.inter_token_ms, 2.0 * state_.cost->ms({.rows = decodes + coming()}));
    int low = 1, high = options_.max_rows;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (state_.cost->ms({.rows = decodes + middle}) <= most) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

  void plan_prompts() {
    plan_.prompt_limit = prompt_limit();
    int left = plan_.prompt_limit;
    for (int pool = 0; pool < kPools; ++pool) {
      const double share = options_.pool_shares[static_cast<size_t>(pool)];
      const int promised = std::min(left, static_cast<int>(share * plan_.prompt_limit));
      if (promised > 0)
        left -= serve(promised, [&](const Candidate& c) { return pool_index(c.sequence->pool) == pool; });
    }
    serve(left, [](const Candidate&) { return true; });
  }

  // Gives up to `limit` rows to those that `belongs` accepts, in their order. Returns the rows given.
  template <class Belongs>
  int serve(int limit, Belongs belongs) {
    for (Candidate& candidate : candidates_) candidate.done = candidate.pending() <= 0 || !belongs(candidate);
    int left = limit;
    while (left > 0) {
      Candidate* best = nullptr;
      for (Candidate& candidate : candidates_) {
        if (slots_ <= 0 && candidate.waiting && candidate.rows == 0) candidate.done = true;
        if (!candidate.done && (best == nullptr || rank(candidate) < rank(*best))) best = &candidate;
      }
      if (best == nullptr) break;
      best->done = true;
      const int wanted = std::min(left, best->pending());
      const int given = give(*best, wanted);
      left -= given;
      if (given < wanted && due(*best)) close_door(*best);
    }
    return limit - left;
  }

  // Up to `wanted` rows for a candidate, as far as there are blocks and slots.
  int give(Candidate& candidate, int wanted) {
    const PlanSequence& s = *candidate.sequence;
    const bool admits = candidate.waiting && candidate.rows == 0;
    if (admits && !fits(candidate)) return 0;
    const int done = s.ready + candidate.rows;
    const int64_t held = admits ? s.shared_blocks : std::max<int64_t>(s.blocks, blocks_for(done));
    const int64_t room = (held + free_) * options_.block_positions - done;
    const int rows = static_cast<int>(std::clamp<int64_t>(room, 0, wanted));
    if (rows == 0) return 0;
    const int64_t taken = std::max<int64_t>(0, blocks_for(done + rows) - held);
    free_ -= taken;
    promised_ -= taken;
    candidate.rows += rows;
    if (admits) {
      promised_ += promise(s) - s.shared_blocks;
      slots_ -= s.branches;
      count_overtaking(candidate, [](const Candidate& other) { return other.waiting && other.rows == 0; });
      find_gate();
    }
    if (candidate.pending() == 0) {
      count_overtaking(candidate, [&](const Candidate& other) {
        return (!other.waiting || other.rows > 0) && other.pending() > 0 && same_queue(candidate, other);
      });
    }
    record(candidate, admits);
    plan_.prompt_rows += rows;
    return rows;
  }

  bool same_queue(const Candidate& a, const Candidate& b) const {
    return !pooled_ || a.sequence->pool == b.sequence->pool;
  }

  // Whether a waiting sequence may come in: nobody who is due waits before it; it has slots, and memory for its whole
  // prompt beside what others were promised and a little for those that run, so that it is not preempted at once.
  bool fits(const Candidate& candidate) const {
    if (gate_ != nullptr && rank(*gate_) < rank(candidate)) return false;
    const PlanSequence& s = *candidate.sequence;
    const int64_t spare = (static_cast<int64_t>(running_.size()) + 7) / 8;
    return s.branches <= slots_ && promise(s) - s.shared_blocks + spare <= free_ - promised_;
  }

  void find_gate() {
    gate_ = nullptr;
    for (const Candidate& candidate : candidates_) {
      if (!candidate.waiting || candidate.rows > 0 || !due(candidate)) continue;
      if (gate_ == nullptr || rank(candidate) < rank(*gate_)) gate_ = &candidate;
    }
  }

  void record(const Candidate& candidate, bool admits) {
    for (PlanPiece& piece : plan_.chunks) {
      if (piece.id != candidate.sequence->id) continue;
      piece.rows = candidate.rows;
      return;
    }
    plan_.chunks.push_back({candidate.sequence->id, candidate.rows, admits});
  }

  template <class Behind>
  void count_overtaking(const Candidate& ahead, Behind behind) {
    const PlanSequence& first = *ahead.sequence;
    if (first.answered) return;
    for (Candidate& other : candidates_) {
      const PlanSequence& s = *other.sequence;
      if (s.answered || s.arrival >= first.arrival || s.priority != first.priority || !behind(other)) continue;
      ++other.overtaken;
      plan_.overtaken.push_back(s.id);
      if (other.done && due(other)) close_door(other);
    }
  }

  // One that is due and computing lacks memory: nobody behind it goes on, or may come in for that (the gate sees to
  // those before it).
  void close_door(const Candidate& blocked) {
    if (blocked.waiting && blocked.rows == 0) return;
    for (Candidate& other : candidates_) {
      if (other.sequence->priority <= blocked.sequence->priority && same_queue(blocked, other)) other.done = true;
    }
  }

  // Nothing could be planned although somebody is here: make room for the most senior.
  void force_one() {
    if (running_.empty()) {
      const auto first = std::min_element(candidates_.begin(), candidates_.end(),
                                          [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
      const bool given_back = !plan_.preempted.empty() || !plan_.exhausted.empty();  // of that the next plan knows
      if (first != candidates_.end() && !given_back) plan_.exhausted.push_back(first->sequence->id);
      return;
    }
    while (free_ == 0 && running_.size() > 1) preempt_last();
    const PlanSequence& first = *running_[0];
    const int64_t room = (first.blocks + free_) * options_.block_positions - first.ready;
    const int rows = static_cast<int>(std::min<int64_t>({room, first.tokens - first.ready, plan_.prompt_limit}));
    if (rows <= 0) {
      plan_.exhausted.push_back(first.id);
      return;
    }
    free_ -= std::max<int64_t>(0, blocks_for(first.ready + rows) - first.blocks);
    plan_.chunks.push_back({first.id, rows});
    plan_.prompt_rows = rows;
  }

  void finish() {
    plan_.free_blocks = free_;
    plan_.expected_tokens = static_cast<int>(plan_.decodes.size());
    for (const Candidate& candidate : candidates_) {
      if (candidate.rows > 0 && candidate.pending() == 0) plan_.expected_tokens += candidate.sequence->branches;
    }
    if (state_.cost != nullptr && state_.cost->known() && plan_.rows() > 0) {
      plan_.expected_ms = state_.cost->ms({.rows = plan_.rows()});
    }
  }

  const ScheduleState& state_;
  const ScheduleOptions& options_;
  bool pooled_;
  int64_t free_;
  int64_t promised_ = 0;  // blocks that running prompts will still take
  int slots_ = 0;
  std::vector<const PlanSequence*> running_;
  std::vector<Candidate> candidates_;
  const Candidate* gate_ = nullptr;  // the first that is due and waits
  Plan plan_;
};

}  // namespace

Plan plan_step(const ScheduleState& state, const ScheduleOptions& options) { return Planner(state, options).plan(); }

}  // namespace dspark
