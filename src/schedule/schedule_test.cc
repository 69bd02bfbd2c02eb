// The plan on tables: who gets rows, who comes in, who gives way.
#include "schedule/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dspark {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

PlanSequence decoding(uint64_t id, int length, int rows = 1) {
  const int blocks = (length + 127) / 128;
  return {.id = id,
          .arrival = id,
          .tokens = length + 1,
          .ready = length,
          .answered = true,
          .decode_rows = rows,
          .blocks = blocks,
          .own_blocks = blocks};
}

PlanSequence computing(uint64_t id, int tokens, int ready) {
  const int blocks = (ready + 127) / 128;
  return {.id = id, .arrival = id, .tokens = tokens, .ready = ready, .blocks = blocks, .own_blocks = blocks};
}

PlanSequence waiting(uint64_t id, int tokens, int cached = 0) {
  return {.id = id, .arrival = id, .tokens = tokens, .ready = cached};
}

struct Table {
  std::vector<PlanSequence> running, waiting;
  int64_t free_blocks = 1000;
  ScheduleOptions options;
  std::array<double, kPools> usual_seconds = {};
  CostModel cost;

  Plan plan() const { return plan_step({running, waiting, free_blocks, &cost, usual_seconds}, options); }
};

// "7:64" for 64 rows of 7, "+7:64" if it comes in with them.
std::vector<std::string> texts(const std::vector<PlanPiece>& pieces) {
  std::vector<std::string> out;
  for (const PlanPiece& piece : pieces) {
    out.push_back((piece.admitted ? "+" : "") + std::to_string(piece.id) + ":" + std::to_string(piece.rows));
  }
  return out;
}

TEST(Plan, NothingToDo) {
  const Plan plan = Table{}.plan();
  EXPECT_EQ(plan.rows(), 0);
  EXPECT_THAT(plan.exhausted, IsEmpty());
}

TEST(Plan, AloneAPromptGetsAllRows) {
  Table table;
  table.waiting = {waiting(1, 1300, 100)};
  EXPECT_THAT(texts(table.plan().chunks), ElementsAre("+1:512"));
  table.running = {computing(1, 1300, 1100)};
  table.waiting = {};
  const Plan plan = table.plan();
  EXPECT_THAT(texts(plan.chunks), ElementsAre("1:200"));
  EXPECT_EQ(plan.expected_tokens, 1);
}

TEST(Plan, DecodesComeFirstAndTheBudgetBoundsPrompts) {
  Table table;
  table.running = {decoding(1, 50), decoding(2, 70, 4), computing(3, 400, 128)};
  table.options.step_budget = 40;
  const Plan plan = table.plan();
  EXPECT_THAT(texts(plan.decodes), ElementsAre("1:1", "2:4"));
  EXPECT_THAT(texts(plan.chunks), ElementsAre("3:35"));
  EXPECT_EQ(plan.rows(), 40);
  EXPECT_EQ(plan.expected_tokens, 2);
}

TEST(Plan, ABudgetFullOfDecodesLeavesPromptsAQuarter) {
  Table table;
  for (uint64_t id = 1; id <= 50; ++id) table.running.push_back(decoding(id, 10));
  table.waiting = {waiting(60, 400)};
  table.options.step_budget = 40;
  EXPECT_EQ(table.plan().prompt_rows, 10);
}

TEST(Plan, TheBudgetComesFromTheCostOfRows) {
  Table table;
  const std::vector<CostPoint> profile = {{1, 3.0}, {512, 512.0}};
  table.cost = *CostModel::create(profile, {});
  table.running = {decoding(1, 50)};
  table.waiting = {waiting(2, 4000)};
  table.options.inter_token_ms = 100.0;
  const Plan plan = table.plan();
  EXPECT_NEAR(plan.prompt_rows, 98, 2);
  EXPECT_NEAR(plan.expected_ms, 100.0, 2.0);
  // Where decodes alone take longer than that, prompts may double the step.
  for (uint64_t id = 10; id < 160; ++id) table.running.push_back(decoding(id, 50));
  table.options.max_running = 200;
  EXPECT_NEAR(table.plan().prompt_rows, 153, 3);  // and the one that waits
}

// Whoever decodes now will share its steps with those whose prompts wait: twice such a step is not held against them.
TEST(Plan, TheBudgetForeseesWhoWillDecode) {
  Table table;
  const std::vector<CostPoint> profile = {{1, 1.0}, {512, 512.0}};
  table.cost = *CostModel::create(profile, {});
  table.running = {decoding(1, 50), computing(2, 400, 300)};
  for (uint64_t id = 10; id < 88; ++id) table.waiting.push_back(waiting(id, 40));
  table.options.inter_token_ms = 100.0;
  table.options.max_running = 200;
  EXPECT_NEAR(table.plan().prompt_rows, 2 * 80 - 1, 2);
  table.options.max_running = 60;  // the others wait for a place
  EXPECT_NEAR(table.plan().prompt_rows, 2 * 60 - 1, 2);
}

TEST(Plan, HybridTakesTheFewestRowsToCompute) {
  Table table;
  table.options.max_rows = 100;
  table.waiting = {waiting(1, 900), waiting(2, 500, 470), waiting(3, 60)};
  EXPECT_THAT(texts(table.plan().chunks), ElementsAre("+2:30", "+3:60", "+1:10"));
}

TEST(Plan, HitRateTakesTheLargestCachedPart) {
  Table table;
  table.options.policy = SchedulePolicy::kHitRate;
  table.options.max_rows = 100;
  table.waiting = {waiting(1, 60, 10), waiting(2, 4000, 3900), waiting(3, 60)};
  EXPECT_THAT(texts(table.plan().chunks), ElementsAre("+2:100"));
}

TEST(Plan, LatencyAwareMeasuresAgeByWhatIsUsual) {
  Table table;
  table.options.policy = SchedulePolicy::kLatencyAware;
  table.options.max_rows = 60;
  table.waiting = {waiting(1, 2000), waiting(2, 60)};
  table.waiting[0].pool = Pool::kLong;
  table.waiting[0].age_seconds = 3.0;
  table.waiting[1].age_seconds = 1.0;
  EXPECT_THAT(texts(table.plan().chunks), ElementsAre("+1:60"));
  table.usual_seconds = {0.5, 20.0};  // a short one that waits for 1 s is late, a long one of 3 s is not
  EXPECT_THAT(texts(table.plan().chunks), ElementsAre("+2:60"));
}

TEST(Plan, PriorityGoesFirst) {
  Table table;
  table.options.max_rows = 100;
  table.waiting = {waiting(1, 10), waiting(2, 500)};
  table.waiting[1].priority = 1;
  EXPECT_THAT(texts(table.plan().chunks), ElementsAre("+2:100"));
}

TEST(Plan, PoolsKeepTheirShareAndLendWhatTheyDoNotUse) {
  Table table;
  table.options.pool_shares = {0.3, 0.7};
  table.options.max_rows = 100;
  table.options.policy = SchedulePolicy::kHitRate;
  table.running = {computing(1, 4000, 2000)};
  table.running[0].pool = Pool::kLong;
  table.waiting = {waiting(2, 200)};
  EXPECT_THAT(texts(table.plan().chunks), ElementsAre("+2:30", "1:70"));
  table.waiting = {waiting(2, 10)};
  EXPECT_THAT(texts(table.plan().chunks), ElementsAre("+2:10", "1:90"));
  table.waiting = {};
  EXPECT_THAT(texts(table.plan().chunks), ElementsAre("1:100"));
}

TEST(Plan, SlotsCountBranches) {
  Table table;
  table.options.max_running = 4;
  table.running = {decoding(1, 10), computing(2, 10, 0)};
  table.running[1].branches = 2;
  table.waiting = {waiting(3, 5), waiting(4, 9)};
  table.waiting[0].branches = 2;
  EXPECT_THAT(texts(table.plan().chunks), ElementsAre("+4:9", "2:10"));
}

TEST(Plan, WhoMayNotBeOvertakenAnyMoreClosesTheGate) {
  Table table;
  table.options.max_running = 3;
  table.options.max_overtaken = 2;
  table.running = {decoding(1, 10)};
  table.waiting = {waiting(2, 300), waiting(3, 5)};
  table.waiting[0].branches = 3;  // does not fit now
  table.waiting[0].overtaken = 1;
  Plan plan = table.plan();
  EXPECT_THAT(texts(plan.chunks), ElementsAre("+3:5"));
  EXPECT_THAT(plan.overtaken, ElementsAre(2));
  table.waiting[0].overtaken = 2;
  plan = table.plan();
  EXPECT_THAT(plan.chunks, IsEmpty());
  table.waiting[1].priority = 1;  // a higher priority is no overtaking
  EXPECT_THAT(texts(table.plan().chunks), ElementsAre("+3:5"));
}

TEST(Plan, AdmissionWantsMemoryForTheWholePrompt) {
  Table table;
  table.options.max_rows = 64;
  table.free_blocks = 6;
  table.running = {computing(1, 500, 128)};  // 4 blocks in all, 1 held: 3 are promised to it
  table.waiting = {waiting(2, 300), waiting(3, 120)};
  EXPECT_THAT(texts(table.plan().chunks), ElementsAre("+3:64"));  // 2 needs 3 blocks and 1 to spare
  table.free_blocks = 7;
  table.waiting = {waiting(2, 300)};
  table.options.max_rows = 500;
  EXPECT_THAT(texts(table.plan().chunks), ElementsAre("+2:300", "1:200"));
  table.free_blocks = 4;
  table.waiting[0].ready = table.waiting[0].shared_blocks * 128;
  EXPECT_THAT(texts(table.plan().chunks), ElementsAre("1:372"));
  table.waiting[0].shared_blocks = 3;  // blocks that others hold in any case cost nothing
  table.waiting[0].ready = 299;
  EXPECT_THAT(texts(table.plan().chunks), ElementsAre("+2:1", "1:372"));
}

TEST(Plan, MemoryPressurePreemptsTheLowestPriorityAndThenTheLatest) {
  Table table;
  table.free_blocks = 0;
  table.running = {decoding(3, 256), decoding(1, 128), decoding(2, 50), decoding(4, 60)};
  table.running[3].priority = 1;
  const Plan plan = table.plan();
  // 4 goes first and fits; 1 needs a block: 3, the last, gives two.
  EXPECT_THAT(texts(plan.decodes), ElementsAre("4:1", "1:1", "2:1"));
  EXPECT_THAT(plan.preempted, ElementsAre(3));
  EXPECT_EQ(plan.free_blocks, 1);
}

TEST(Plan, TheLastInLinePreemptsItself) {
  Table table;
  table.free_blocks = 0;
  table.running = {decoding(1, 50), decoding(2, 128)};
  const Plan plan = table.plan();
  EXPECT_THAT(texts(plan.decodes), ElementsAre("1:1"));
  EXPECT_THAT(plan.preempted, ElementsAre(2));
}

TEST(Plan, AloneWithoutMemoryIsExhausted) {
  Table table;
  table.free_blocks = 0;
  table.running = {decoding(1, 128)};
  EXPECT_THAT(table.plan().exhausted, ElementsAre(1));
  table.running = {computing(1, 500, 256)};
  EXPECT_THAT(table.plan().exhausted, ElementsAre(1));
  table.running = {};
  table.waiting = {waiting(5, 10)};
  EXPECT_THAT(table.plan().exhausted, ElementsAre(5));
}

TEST(Plan, StuckPromptsMakeRoomForTheFirst) {
  Table table;
  table.free_blocks = 0;
  table.running = {computing(1, 500, 256), computing(2, 400, 128), computing(3, 600, 128)};
  const Plan plan = table.plan();
  EXPECT_THAT(plan.preempted, ElementsAre(3));
  EXPECT_THAT(texts(plan.chunks), ElementsAre("1:128"));
}

TEST(Plan, AnInterruptedAnswerComesBackFirst) {
  Table table;
  table.options.max_rows = 100;
  table.waiting = {waiting(1, 10), waiting(2, 300, 100)};
  table.waiting[1].answered = true;
  EXPECT_THAT(texts(table.plan().chunks), ElementsAre("+2:100"));
}

TEST(Plan, IsDescribedInOneLine) {
  Table table;
  table.options.step_budget = 64;
  table.free_blocks = 100;
  table.running = {decoding(1, 50)};
  table.waiting = {waiting(2, 300)};
  EXPECT_EQ(describe(table.plan()),
            "1 decodes (1 rows), prompts +2:63; 63 prompt rows of 63, 99 blocks free; expects 1 tokens in 0.00 ms");
  table.free_blocks = 0;
  table.running = {decoding(1, 50), decoding(2, 128)};
  EXPECT_THAT(describe(table.plan()), HasSubstr("preempts 2;"));
}

TEST(ScheduleNames, PoliciesAndPools) {
  for (const SchedulePolicy policy :
       {SchedulePolicy::kHitRate, SchedulePolicy::kLatencyAware, SchedulePolicy::kHybrid}) {
    EXPECT_EQ(schedule_policy_from_name(schedule_policy_name(policy)).value(), policy);
  }
  EXPECT_THAT(schedule_policy_from_name("fifo").error().message, HasSubstr("'fifo', expected hit-rate"));
  EXPECT_EQ(pool_shares_from_text("short:0.3,long:0.7").value(), (PoolShares{0.3, 0.7}));
  EXPECT_EQ(pool_shares_from_text("long:0.5").value(), (PoolShares{0.0, 0.5}));
  EXPECT_EQ(pool_shares_from_text("").value(), (PoolShares{0.0, 0.0}));
  for (const char* bad : {"short", "short:", "short:x", "short:0.3x", "medium:0.1", "short:-1", "short:0.6,long:0.5",
                          "short:nan", "short:0.1,,long:0.1"}) {
    EXPECT_FALSE(pool_shares_from_text(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace dspark
