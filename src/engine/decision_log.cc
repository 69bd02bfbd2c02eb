// See decision_log.h.
#include "engine/decision_log.h"

#include <nlohmann/json.hpp>

#include "base/log.h"

namespace dspark {

Result<std::shared_ptr<DecisionLog>> DecisionLog::open(const std::string& path) {
  auto log = std::make_shared<DecisionLog>();
  log->path_ = path;
  log->file_.open(path, std::ios::app);
  if (!log->file_) {
    return make_error(ErrorCode::kNotFound, "{}: cannot be opened for writing; name a file in a folder that exists",
                      path);
  }
  return log;
}

void DecisionLog::write(const StepRecord& step, uint64_t request, int choice, const Proposal& proposal, int accepted) {
  if (!file_.is_open()) return;
  auto survival = nlohmann::ordered_json::array();
  for (const DraftToken& token : proposal.tokens) survival.push_back(token.survival);
  const nlohmann::ordered_json line = {{"step", step.step},
                                       {"request", request},
                                       {"choice", choice},
                                       {"drafter", proposal.drafter},
                                       {"drafted", proposal.tokens.size()},
                                       {"survival", std::move(survival)},
                                       {"verified", proposal.verified},
                                       {"accepted", accepted},
                                       {"predicted_ms", step.expected_ms},
                                       {"actual_ms", step.actual_ms}};
  file_ << line.dump() << '\n' << std::flush;
  if (file_) return;
  log(LogLevel::kWarning, "{}: writing failed; decisions are no longer logged", path_);
  file_.close();
}

}  // namespace dspark
