// See checkpoint.h. The file: "DSPT", the length of a JSON header (64-bit, machine order), the header, then of each
// parameter its values and both moments as floats.
#include "train/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <unordered_map>

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

namespace {

// What a row of the other training's matrix becomes here: -1 where no row of this one is of its token.
std::vector<int64_t> rows_of_tokens(const std::vector<int32_t>& from, const std::vector<int32_t>& to) {
  std::unordered_map<int32_t, int64_t> row_of;
  for (size_t row = 0; row < to.size(); ++row) row_of[to[row]] = static_cast<int64_t>(row);
  std::vector<int64_t> rows;
  for (const int32_t token : from) {
    const auto found = row_of.find(token);
    rows.push_back(found == row_of.end() ? -1 : found->second);
  }
  return rows;
}

// Rows [rows, width] of the tokens that both have; the others become their mean: no token that was never trained stands
// out among those that were.
void take_rows(const std::vector<float>& from, const std::vector<int64_t>& rows, int64_t width,
               std::vector<float>* to) {
  std::vector<double> sum(static_cast<size_t>(width));
  std::vector<bool> taken(to->size() / static_cast<size_t>(width));
  int64_t count = 0;
  for (size_t row = 0; row < rows.size(); ++row) {
    if (rows[row] < 0) continue;
    const auto values = from.begin() + static_cast<int64_t>(row) * width;
    std::copy_n(values, width, to->begin() + rows[row] * width);
    std::transform(sum.begin(), sum.end(), values, sum.begin(), [](double a, float b) { return a + b; });
    taken[static_cast<size_t>(rows[row])] = true;
    ++count;
  }
  for (size_t row = 0; row < taken.size(); ++row) {
    if (taken[row]) continue;
    std::transform(sum.begin(), sum.end(), to->begin() + static_cast<int64_t>(row) * width,
                   [&](double x) { return static_cast<float>(x / std::max(int64_t{1}, count)); });
  }
}

bool same_names(const nlohmann::json& header, const DrafterParameters& parameters) {
  const auto listed = header.find("parameters");
  if (listed == header.end() || listed->size() != parameters.all.size()) return false;
  for (size_t i = 0; i < parameters.all.size(); ++i) {
    if (!(*listed)[i].is_object() || (*listed)[i].value("name", "") != parameters.all[i].name) return false;
  }
  return true;
}

}  // namespace

Status start_from_checkpoint(const std::string& path, const std::vector<int32_t>& vocabulary,
                             DrafterParameters* parameters) {
  DSPARK_TRY(const TrainState state, read_train_state(path));
  std::ifstream in(path, std::ios::binary);
  DSPARK_TRY(const nlohmann::json header, read_header(in, path));
  if (!same_names(header, *parameters)) {
    return make_error(ErrorCode::kCorrupt, "{}: holds another kind of drafter than the recipe describes", path);
  }
  const std::vector<int64_t> rows = rows_of_tokens(state.vocabulary, vocabulary);
  for (size_t i = 0; i < parameters->all.size(); ++i) {
    Parameter& parameter = parameters->all[i];
    const bool by_token = &parameter == parameters->output || &parameter == parameters->markov_w2;
    const int64_t width = parameter.size() / parameter.shape[0];
    const int64_t size = by_token ? static_cast<int64_t>(rows.size()) * width : parameter.size();
    if (header["parameters"][i].value("size", int64_t{-1}) != size) {
      return make_error(ErrorCode::kCorrupt, "{}: {} has {} values; expected {}", path, parameter.name,
                        header["parameters"][i].value("size", int64_t{-1}), size);
    }
    std::vector<float> values(static_cast<size_t>(size));
    in.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
    in.ignore(static_cast<std::streamsize>(2 * values.size() * sizeof(float)));
    if (!in) return make_error(ErrorCode::kCorrupt, "{}: ends inside {}", path, parameter.name);
    if (!by_token) {
      parameter.value = std::move(values);
      continue;
    }
    take_rows(values, rows, width, &parameter.value);
  }
  return Ok{};
}

}  // namespace dspark
