// Which drafters an engine guesses with: the n-gram drafter, the DSpark drafter that is named or that was made for the
// model, and a second model that is named. Called while an engine is opened, by its thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "draft/dspark_drafter.h"
#include "engine/runner.h"
#include "text/tokenizer.h"

namespace dspark {

enum class DraftWith { kAuto, kDspark, kNgram, kModel, kNone };
// "auto", "dspark", "ngram", "model", "none".
Result<DraftWith> draft_with_from_name(std::string_view name);

struct DrafterOptions {
  DraftWith with = DraftWith::kNgram;
  std::string file = {};                  // the DSpark drafter; "": the first in `folders` that was made for the model
  std::vector<std::string> folders = {};  // where drafters lie
  std::string model = {};                 // a second model that drafts; "": none
};

// A DSpark drafter's file before it is loaded, so that KV blocks get room for it.
struct DrafterFile {
  ModelFile file;
  DsparkConfig config;
  Sha256Digest digest;
  std::vector<KvLayout> kv_layouts(DType kv_type) const;
};

// Nothing where none is wanted, or none was made for the model and nobody insists (kNotFound if somebody does). One
// that was found by itself and is damaged is passed over with a warning; one that was named is an error.
Result<std::optional<DrafterFile>> choose_drafter(const DrafterOptions& options, const Sha256Digest& model,
                                                  const std::string& digest_folder, int threads);

// All drafters, the cheapest first. `file`: as chosen, null for none; the runner's blocks must have room for it.
// `tokenizer`: the target's; kUnsupported, with the first difference, for a draft model that has another.
Result<std::vector<std::shared_ptr<Drafter>>> load_drafters(const DrafterOptions& options, const DrafterFile* file,
                                                            Runner& runner, const Tokenizer& tokenizer);

}  // namespace dspark
