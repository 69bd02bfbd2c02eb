// See checkpoint.h. The file: "DSPT", the length of a JSON header (64-bit, machine order), the header, then of each
// parameter its values and both moments as floats.
#include "train/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/json.h"

namespace dspark {
namespace {

constexpr char kMagic[4] = {'D', 'S', 'P', 'T'};
constexpr uint64_t kMaxHeader = 64 << 20;

nlohmann::json header_of(const TrainState& state, const DrafterParameters& parameters) {
  nlohmann::json header = {{"step", state.step},
                           {"predictions", state.predictions},
                           {"seconds", state.seconds},
                           {"vocabulary", state.vocabulary},
                           {"recipe", state.recipe}};
  for (const Parameter& parameter : parameters.all) {
    header["parameters"].push_back({{"name", parameter.name}, {"size", parameter.size()}});
  }
  return header;
}

Result<nlohmann::json> read_header(std::ifstream& in, const std::string& path) {
  if (!in) return make_error(ErrorCode::kNotFound, "{}: cannot be read", path);
  char magic[4] = {};
  uint64_t length = 0;
  in.read(magic, sizeof(magic));
  in.read(reinterpret_cast<char*>(&length), sizeof(length));
  if (!in || std::memcmp(magic, kMagic, sizeof(magic)) != 0 || length > kMaxHeader) {
    return make_error(ErrorCode::kCorrupt, "{}: is no checkpoint of dspark train", path);
  }
  std::string text(length, '\0');
  in.read(text.data(), static_cast<std::streamsize>(length));
  if (!in) return make_error(ErrorCode::kCorrupt, "{}: ends inside its header", path);
  return parse_json(text, path);
}

Status flush_to_disk(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool flushed = fd >= 0 && fsync(fd) == 0;
  if (fd >= 0) close(fd);
  if (!flushed) return make_error(ErrorCode::kInternal, "{}: cannot be written; is the disk full?", path);
  return Ok{};
}

}  // namespace

Status save_checkpoint(const std::string& path, const TrainState& state, const DrafterParameters& parameters) {
  const std::string part = path + ".part";
  {
    std::ofstream out(part, std::ios::binary | std::ios::trunc);
    const std::string header = header_of(state, parameters).dump();
    const uint64_t length = header.size();
    out.write(kMagic, sizeof(kMagic));
    out.write(reinterpret_cast<const char*>(&length), sizeof(length));
    out.write(header.data(), static_cast<std::streamsize>(length));
    for (const Parameter& parameter : parameters.all) {
      for (const auto* values : {&parameter.value, &parameter.first_moment, &parameter.second_moment}) {
        out.write(reinterpret_cast<const char*>(values->data()),
                  static_cast<std::streamsize>(values->size() * sizeof(float)));
      }
    }
    out.flush();
    if (!out) return make_error(ErrorCode::kInternal, "{}: cannot be written; is the disk full?", part);
  }
  DSPARK_RETURN_IF_ERROR(flush_to_disk(part));
  std::error_code failed;
  std::filesystem::rename(part, path, failed);
  if (failed) return make_error(ErrorCode::kInternal, "{}: {}", path, failed.message());
  return Ok{};
}

Result<TrainState> read_train_state(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  DSPARK_TRY(const nlohmann::json header, read_header(in, path));
  TrainState state;
  DSPARK_TRY(state.step, json_require<int64_t>(header, "step", path));
  DSPARK_TRY(state.predictions, json_require<int64_t>(header, "predictions", path));
  DSPARK_TRY(state.seconds, json_require<double>(header, "seconds", path));
  DSPARK_TRY(state.vocabulary, json_require<std::vector<int32_t>>(header, "vocabulary", path));
  DSPARK_TRY(state.recipe, json_require<std::string>(header, "recipe", path));
  if (state.step < 0) return make_error(ErrorCode::kCorrupt, "{}: step {}", path, state.step);
  return state;
}

Status load_checkpoint(const std::string& path, DrafterParameters* parameters) {
  std::ifstream in(path, std::ios::binary);
  DSPARK_TRY(const nlohmann::json header, read_header(in, path));
  if (header.value("parameters", nlohmann::json()) != header_of({}, *parameters)["parameters"]) {
    return make_error(ErrorCode::kCorrupt, "{}: holds another kind of drafter than the recipe describes", path);
  }
  for (Parameter& parameter : parameters->all) {
    for (auto* values : {&parameter.value, &parameter.first_moment, &parameter.second_moment}) {
      in.read(reinterpret_cast<char*>(values->data()), static_cast<std::streamsize>(values->size() * sizeof(float)));
    }
  }
  if (!in || in.peek() != std::ifstream::traits_type::eof()) {
    return make_error(ErrorCode::kCorrupt, "{}: has another size than its header says", path);
  }
  return Ok{};
}

}  // namespace dspark
