// See find_drafter.h.
#include "draft/find_drafter.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "draft/dspark_config.h"

namespace dspark {

Result<std::optional<std::string>> find_drafter(std::span<const std::string> folders, const Sha256Digest& digest) {
  const std::string wanted = to_hex(digest);
  for (const std::string& folder : folders) {
    std::vector<std::string> paths;
    std::error_code error;
    for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      if (it->path().extension() == ".gguf") paths.push_back(it->path().string());
    }
    std::sort(paths.begin(), paths.end());
    for (const std::string& path : paths) {
      DSPARK_TRY(const GgufFile file, GgufFile::open(path));
      DSPARK_TRY(const std::string_view kind, file.get_or<std::string_view>("general.architecture", ""));
      if (kind != "dflash") continue;
      DSPARK_TRY(const std::string_view made_for, file.get_or<std::string_view>("dspark.target.digest", ""));
      if (made_for == wanted) return std::optional(path);
    }
  }
  return std::optional<std::string>();
}

}  // namespace dspark
