// See model_file.h.
#include "model/model_file.h"

#include <filesystem>
#include <system_error>

namespace dspark {

Result<ModelFile> ModelFile::open(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    DSPARK_TRY(auto folder, HfFolder::open(path));
    return ModelFile(std::move(folder));
  }
  DSPARK_TRY(auto file, GgufFile::open(path));
  return ModelFile(std::move(file));
}

}  // namespace dspark
