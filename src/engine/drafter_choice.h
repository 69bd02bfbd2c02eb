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

bool same_layouts(std::span<const KvLayout> a, std::span<const KvLayout> b);

// A trained drafter that can take the place of the one that drafts.
struct NewDrafter {
  std::shared_ptr<Drafter> drafter;
  Sha256Digest digest = {};
};

// Chosen as `options` say, loaded by a thread other than the one that steps, while it steps. kUnsupported if its KV
// does not lie as `layouts` say, for which the blocks have room; any other error is none that a restart would cure.
Result<NewDrafter> load_new_drafter(const DrafterOptions& options, std::span<const KvLayout> layouts, Runner& runner,
                                    const std::shared_ptr<NgramStore>& store, const std::string& digest_folder);

struct LoadedDrafters {
  std::vector<std::shared_ptr<Drafter>> drafters;
  std::vector<Sha256Digest> costly;  // the digests of those that cost time, in their order
};

// The same for somebody who cannot do without: any trouble is an error, whatever options.with says.
Result<DrafterFile> require_drafter(DrafterOptions options, const Sha256Digest& model, const std::string& digest_folder,
                                    int threads);

// All drafters, the cheapest first. `file`: as chosen, null for none; the runner's blocks must have room for it.
// `tokenizer`: the target's; kUnsupported, with the first difference, for a draft model that has another. `store`:
// where they look continuations up.
Result<LoadedDrafters> load_drafters(const DrafterOptions& options, const DrafterFile* file, Runner& runner,
                                     const Tokenizer& tokenizer, const std::shared_ptr<NgramStore>& store,
                                     const std::string& digest_folder);

}  // namespace dspark
