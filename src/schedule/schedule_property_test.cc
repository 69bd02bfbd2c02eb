// Laws of the plan over random workloads, by RapidCheck: whole runs of a made-up engine that does what each plan says.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "schedule/schedule.h"

namespace dspark {
namespace {

struct Job {
  int arrives;  // step
  int prompt;
  int cached;
  int answer;
  int priority;
  int branches;
  Pool pool;
};

struct Workload {
  ScheduleOptions options;
  int64_t blocks;
  std::vector<Job> jobs;
};

Workload any_workload() {
  Workload work;
  ScheduleOptions& o = work.options;
  o.policy = *rc::gen::element(SchedulePolicy::kHitRate, SchedulePolicy::kLatencyAware, SchedulePolicy::kHybrid);
  o.max_running = *rc::gen::inRange(4, 20);
  o.max_rows = *rc::gen::element(1, 7, 64, 512);
  o.step_budget = *rc::gen::element(0, 1, 16, 100);
  o.max_overtaken = *rc::gen::inRange(0, 6);
  o.block_positions = 16;
  if (*rc::gen::element(false, true)) o.pool_shares = {0.3, 0.5};
  work.blocks = *rc::gen::inRange(10, 60);
  const int count = *rc::gen::inRange(1, 40);
  const bool priorities = *rc::gen::element(false, true);
  for (int i = 0; i < count; ++i) {
    Job job;
    job.arrives = *rc::gen::inRange(0, 30);
    job.prompt = *rc::gen::inRange(1, 100);
    job.cached = *rc::gen::inRange(0, job.prompt);
    job.answer = *rc::gen::inRange(1, 40);
    job.priority = priorities ? *rc::gen::inRange(0, 3) : 0;
    job.branches = *rc::gen::element(1, 1, 1, 2, 4);
    job.pool = job.prompt > 40 ? Pool::kLong : Pool::kShort;
    work.jobs.push_back(job);
  }
  std::stable_sort(work.jobs.begin(), work.jobs.end(),
                   [](const Job& a, const Job& b) { return a.arrives < b.arrives; });
  return work;
}

// Sequences by id: job * 100 + branch.
class FakeEngine {
 public:
  explicit FakeEngine(const Workload& work) : work_(work), free_(work.blocks) {
    const std::vector<CostPoint> profile = {{1, 3.0}, {104, 100.0}};
    cost_ = *CostModel::create(profile, {});
  }

  void run() {
    for (int step = 0; !over(); ++step) {
      RC_ASSERT(step < 20000);  // everything ends
      arrive(step);
      const Plan plan = plan_step({running_, waiting_, free_, &cost_}, work_.options);
      RC_LOG() << step << ": " << describe(plan) << "\n";
      check(plan);
      apply(plan);
    }
    RC_ASSERT(free_ == work_.blocks);
  }

 private:
  bool over() const { return next_job_ == work_.jobs.size() && running_.empty() && waiting_.empty(); }
  int64_t blocks_for(int positions) const {
    return (positions + work_.options.block_positions - 1) / work_.options.block_positions;
  }
  const Job& job(uint64_t id) const { return work_.jobs[id / 100]; }

  void arrive(int step) {
    for (; next_job_ < work_.jobs.size() && work_.jobs[next_job_].arrives <= step; ++next_job_) {
      const Job& job = work_.jobs[next_job_];
      waiting_.push_back({.id = next_job_ * 100,
                          .arrival = next_job_,
                          .priority = job.priority,
                          .pool = job.pool,
                          .tokens = job.prompt,
                          .ready = job.cached,
                          .branches = job.branches});
    }
    for (PlanSequence& sequence : waiting_) sequence.age_seconds += 0.1;
  }

  PlanSequence* find(std::vector<PlanSequence>& list, uint64_t id) {
    const auto found = std::find_if(list.begin(), list.end(), [&](const PlanSequence& s) { return s.id == id; });
    return found == list.end() ? nullptr : &*found;
  }
  void erase(std::vector<PlanSequence>& list, uint64_t id) {
    std::erase_if(list, [&](const PlanSequence& s) { return s.id == id; });
  }

  // What must hold of each plan by itself.
  void check(const Plan& plan) {
    int rows = 0;
    for (const PlanPiece& piece : plan.chunks) {
      PlanSequence* s = find(piece.admitted ? waiting_ : running_, piece.id);
      RC_ASSERT(s != nullptr);
      RC_ASSERT(piece.rows > 0 && s->ready + piece.rows <= s->tokens);
      RC_ASSERT(std::count(plan.preempted.begin(), plan.preempted.end(), piece.id) == 0);
      rows += piece.rows;
    }
    RC_ASSERT(rows == plan.prompt_rows && rows <= std::max(plan.prompt_limit, 0));
    RC_ASSERT(plan.prompt_limit <= work_.options.max_rows || plan.chunks.empty());
    for (const PlanSequence& s : running_) {
      if (s.decode_rows == 0) continue;
      const auto is = [&](const PlanPiece& piece) { return piece.id == s.id && piece.rows == s.decode_rows; };
      const auto planned = std::count_if(plan.decodes.begin(), plan.decodes.end(), is);
      const auto ended = std::count(plan.preempted.begin(), plan.preempted.end(), s.id) +
                         std::count(plan.exhausted.begin(), plan.exhausted.end(), s.id);
      RC_ASSERT(planned + ended == 1);  // no decode waits but those that give up their memory
    }
    // Nobody gives way to a lower priority, or a later arrival of the same.
    for (const uint64_t id : plan.preempted) {
      const PlanSequence* victim = find(running_, id);
      for (const PlanPiece& piece : plan.decodes) {
        const PlanSequence* s = find(running_, piece.id);
        RC_ASSERT(std::tuple(-s->priority, s->arrival) <= std::tuple(-victim->priority, victim->arrival));
      }
    }
    RC_ASSERT(plan.rows() > 0 || !plan.exhausted.empty() || !plan.preempted.empty() ||
              (running_.empty() && waiting_.empty()));
  }

  void apply(const Plan& plan) {
    for (const uint64_t id : plan.preempted) {
      PlanSequence s = *find(running_, id);
      erase(running_, id);
      free_ += s.blocks;
      s.blocks = s.own_blocks = s.ready = s.decode_rows = 0;
      waiting_.push_back(s);
    }
    for (const uint64_t id : plan.exhausted) {
      if (const PlanSequence* s = find(running_, id)) free_ += s->blocks;
      erase(running_, id);
      erase(waiting_, id);
    }
    for (const uint64_t id : plan.overtaken) {
      for (auto* list : {&running_, &waiting_}) {
        if (PlanSequence* s = find(*list, id)) ++s->overtaken;
      }
    }
    for (const PlanPiece& piece : plan.chunks) {
      if (!piece.admitted) continue;
      running_.push_back(*find(waiting_, piece.id));
      erase(waiting_, piece.id);
    }
    RC_ASSERT(slots() <= work_.options.max_running);
    for (const PlanPiece& piece : plan.decodes) reserve(*find(running_, piece.id), piece.rows);
    for (const PlanPiece& piece : plan.chunks) reserve(*find(running_, piece.id), piece.rows);
    RC_ASSERT(free_ >= 0);
    for (const PlanPiece& piece : plan.decodes) decode(piece);
    for (const PlanPiece& piece : plan.chunks) compute(piece);
    check_overtaking();
  }

  int slots() const {
    int out = 0;
    for (const PlanSequence& s : running_) out += s.branches;
    return out;
  }

  void reserve(PlanSequence& s, int rows) {
    const int64_t more = std::max<int64_t>(0, blocks_for(s.ready + rows) - s.blocks);
    free_ -= more;
    s.blocks += static_cast<int>(more);
    s.own_blocks = s.blocks;
  }

  void decode(const PlanPiece& piece) {
    PlanSequence& s = *find(running_, piece.id);
    s.ready += 1;
    s.tokens += 1;
    if (s.tokens - job(s.id).prompt < job(s.id).answer) return;
    free_ += s.blocks;
    erase(running_, piece.id);
  }

  void compute(const PlanPiece& piece) {
    PlanSequence& s = *find(running_, piece.id);
    s.ready += piece.rows;
    if (s.ready < s.tokens) return;
    s.tokens += 1;
    s.decode_rows = 1;
    if (!s.answered) first_token_.push_back(s.arrival);
    s.answered = true;
    const int branches = std::exchange(s.branches, 1);
    const PlanSequence parent = s;
    for (int branch = 1; branch < branches; ++branch) {
      PlanSequence fork = parent;
      fork.id += static_cast<uint64_t>(branch);
      fork.blocks = 0;
      if (blocks_for(fork.ready) > free_) {  // as an engine would: it waits for its turn
        fork.ready = fork.decode_rows = fork.own_blocks = 0;
        waiting_.push_back(fork);
        continue;
      }
      reserve(fork, 0);
      running_.push_back(fork);
    }
  }

  // Of one priority (and pool, where there are shares), at most max_overtaken later ones got their first token before.
  void check_overtaking() {
    const bool pooled = work_.options.pool_shares[0] > 0.0;
    for (auto* list : {&running_, &waiting_}) {
      for (const PlanSequence& s : *list) {
        if (s.answered) continue;
        const Job& own = work_.jobs[s.arrival];
        const auto later = std::count_if(first_token_.begin(), first_token_.end(), [&](uint64_t arrival) {
          const Job& other = work_.jobs[arrival];
          return arrival > s.arrival && other.priority == own.priority && (!pooled || other.pool == own.pool);
        });
        RC_ASSERT(later <= work_.options.max_overtaken);
      }
    }
  }

  const Workload& work_;
  CostModel cost_;
  int64_t free_;
  size_t next_job_ = 0;
  std::vector<PlanSequence> running_, waiting_;
  std::vector<uint64_t> first_token_;  // arrivals, in the order of their first tokens
};

TEST(ScheduleLaws, HoldForAnyWorkload) {
  setenv("RC_PARAMS", "max_success=1000", 0);
  const bool holds = rc::check([] {
    const Workload work = any_workload();
    FakeEngine(work).run();
  });
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace dspark
