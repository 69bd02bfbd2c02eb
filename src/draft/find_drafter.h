// Which drafter belongs to a model: the one that records the model's digest. Blocking; any thread.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "base/sha256.h"

namespace dspark {

// The path of the first drafter (*.gguf, in the order of their names) in the folders, earlier ones first, that was made
// for the model `digest`; nothing if there is none. Folders that do not exist are skipped, files that are no drafters
// too. kCorrupt for a drafter whose file is damaged.
Result<std::optional<std::string>> find_drafter(std::span<const std::string> folders, const Sha256Digest& digest);

}  // namespace dspark
