// See prompt_set.h.
#include "tools/prompt_set.h"

#include <algorithm>
#include <filesystem>

#include "server/task_bucket.h"
#include "train/prompt_sources.h"

namespace dspark {

Result<PromptSet> load_prompt_set(const Engine& engine, const std::string& path, int64_t limit) {
  DSPARK_TRY(const auto conversations, load_turns(path));
  if (conversations.empty()) return make_error(ErrorCode::kCorrupt, "{}: no prompts in it", path);
  PromptSet set;
  set.name = std::filesystem::path(path).stem().string();
  set.bucket = bucket_of_name(set.name);
  const auto count = static_cast<int64_t>(conversations.size());
  const int64_t wanted = limit == 0 ? count : std::min(limit, count);
  for (int64_t i = 0; i < wanted; ++i) {
    const auto& turns = conversations[static_cast<size_t>(i * count / wanted)];
    DSPARK_TRY(const std::string rendered, engine.render({{{"role", "user"}, {"content", turns.front()}}}));
    set.prompts.push_back(engine.encode_rendered(rendered));
  }
  return set;
}

}  // namespace dspark
