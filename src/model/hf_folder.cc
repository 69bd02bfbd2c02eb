// Opening of Hugging Face folders (hf_folder.h).
#include "model/hf_folder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/json.h"
#include "base/printable.h"
#include "model/safetensors.h"

namespace dspark {
namespace {

namespace fs = std::filesystem;

// The mapped file, or an empty one if there is nothing of this name.
Result<MappedFile> open_optional(const fs::path& path) {
  std::error_code error;
  if (fs::symlink_status(path, error).type() == fs::file_type::not_found) return MappedFile();
  return MappedFile::open(path);
}

// Names of all *.safetensors in the folder, sorted.
std::vector<std::string> safetensors_names(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".safetensors") names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

Result<std::vector<TensorInfo>> HfFolder::open_shard(const std::string& name) {
  const std::string shard_path = path_ + "/" + name;
  DSPARK_TRY(MappedFile map, MappedFile::open(shard_path));
  DSPARK_TRY(auto tensors, parse_safetensors(map.bytes(), shard_path));
  for (TensorInfo& tensor : tensors) tensor.file = static_cast<uint32_t>(files_.size());
  files_.push_back(std::move(map));
  file_names_.push_back(shard_path);
  return tensors;
}

Status HfFolder::open_shards(const std::string& index_path) {
  DSPARK_TRY(const MappedFile index, MappedFile::open(index_path));
  DSPARK_TRY(const auto entries, parse_safetensors_index(text_of(index), index_path));
  std::vector<TensorInfo> tensors;
  for (size_t begin = 0; begin < entries.size();) {
    const std::string& shard = entries[begin].file;
    const auto end = static_cast<size_t>(std::find_if(entries.begin() + static_cast<ptrdiff_t>(begin), entries.end(),
                                                      [&](const ShardEntry& entry) { return entry.file != shard; }) -
                                         entries.begin());
    const std::span<const ShardEntry> wanted(entries.data() + begin, end - begin);
    DSPARK_TRY(auto held, open_shard(shard));
    // Only what the index assigns to this shard counts: a name may stand in another shard, too.
    std::vector<bool> found(wanted.size());
    for (TensorInfo& tensor : held) {
      const auto it = std::lower_bound(wanted.begin(), wanted.end(), tensor.name,
                                       [](const ShardEntry& entry, const std::string& n) { return entry.tensor < n; });
      if (it == wanted.end() || it->tensor != tensor.name) continue;
      found[static_cast<size_t>(it - wanted.begin())] = true;
      tensors.push_back(std::move(tensor));
    }
    const auto missing = std::find(found.begin(), found.end(), false);
    if (missing != found.end()) {
      return make_error(ErrorCode::kCorrupt, "{}: tensor {} is missing in {}, expected there by the index; {}",
                        index_path, quote(wanted[static_cast<size_t>(missing - found.begin())].tensor), quote(shard),
                        kDamagedHint);
    }
    begin = end;
  }
  return take(std::move(tensors));
}

// Leaves out the towers for other inputs. All else stays, so that whoever reads the text model refuses what it does not
// know. transformers has written multimodal models with either prefix.
Status HfFolder::take(std::vector<TensorInfo> tensors) {
  if (!is_multimodal()) return set_tensors(std::move(tensors));
  std::erase_if(tensors, [](const TensorInfo& tensor) {
    std::string_view name = tensor.name;
    if (name.starts_with("model.")) name.remove_prefix(6);
    return name.starts_with("vision_tower.") || name.starts_with("multi_modal_projector.");
  });
  for (TensorInfo& tensor : tensors) {
    if (tensor.name.starts_with("language_model.")) tensor.name.erase(0, 15);
    if (tensor.name.starts_with("model.language_model.")) tensor.name.erase(6, 15);
  }
  return set_tensors(std::move(tensors));
}

Status HfFolder::open_weights() {
  const std::string index_path = path_ + "/model.safetensors.index.json";
  std::error_code error;
  if (fs::exists(index_path, error)) return open_shards(index_path);
  const auto names = safetensors_names(path_);
  const bool has_usual = std::find(names.begin(), names.end(), "model.safetensors") != names.end();
  if (names.empty()) return set_tensors({});
  if (!has_usual && names.size() > 1) {
    return make_error(ErrorCode::kNotFound,
                      "{}: {} safetensors files, expected model.safetensors.index.json to order them; fetch it, too",
                      path_, names.size());
  }
  DSPARK_TRY(auto tensors, open_shard(has_usual ? "model.safetensors" : names.front()));
  return take(std::move(tensors));
}

std::vector<const MappedFile*> HfFolder::identity_files() const {
  std::vector<const MappedFile*> files = {&config_file_, &tokenizer_, &tokenizer_config_};
  const auto weights = TensorSource::identity_files();
  files.insert(files.end(), weights.begin(), weights.end());
  if (!generation_config_.bytes().empty()) files.push_back(&generation_config_);
  return files;
}

Result<HfFolder> HfFolder::open(const std::string& path) {
  HfFolder folder(path);
  auto config = MappedFile::open(folder.config_name());
  if (!config.ok()) {
    return make_error(config.error().code, "{}; expected a Hugging Face folder with config.json, or a GGUF file",
                      config.error().message);
  }
  DSPARK_TRY(folder.config_, parse_json(text_of(*config), folder.config_name(), {.max_bytes = 16 << 20}));
  folder.config_file_ = std::move(config).value();
  if (!folder.config_.is_object()) {
    return make_error(ErrorCode::kCorrupt, "{}: no JSON object, expected the model's parameters", folder.config_name());
  }
  DSPARK_TRY(folder.tokenizer_, open_optional(path + "/tokenizer.json"));
  DSPARK_TRY(folder.tokenizer_config_, open_optional(path + "/tokenizer_config.json"));
  DSPARK_TRY(folder.chat_template_, open_optional(path + "/chat_template.jinja"));
  DSPARK_TRY(folder.generation_config_, open_optional(path + "/generation_config.json"));
  DSPARK_RETURN_IF_ERROR(folder.open_weights());
  return folder;
}

}  // namespace dspark
