// `dspark models`: the models known by name, and where they lie. Main thread.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "model/registry.h"
#include "tools/command.h"
#include "tools/io.h"

namespace dspark {
namespace {

Result<ExitCode> print_path(const ModelStore& store, const std::string& model, bool json) {
  DSPARK_TRY(const auto path, find_model(store, model));
  if (!path) {
    return make_error(ErrorCode::kNotFound, "{} is not on this machine yet; fetch it with `dspark pull {}`",
                      quote(model), printable(model));
  }
  DSPARK_RETURN_IF_ERROR(json ? write_json({{"model", model}, {"path", *path}}) : write_output(*path + '\n'));
  return ExitCode::kOk;
}

}  // namespace

Result<ExitCode> cmd_models(const Invocation& call) {
  const bool json = call.settings.get<"json">();
  DSPARK_TRY(const ModelStore store, ModelStore::standard());
  if (call.settings.is_set<"path">()) return print_path(store, call.settings.get<"path">(), json);

  std::string text = fmt::format("{:<16} {:>9}  {:<28} {:<20} {}\n", "NAME", "SIZE", "MODEL", "LICENCE", "PATH");
  auto list = nlohmann::ordered_json::array();
  for (const KnownModel& known : store.known) {
    DSPARK_TRY(const auto path, find_model(store, known.name));
    text += fmt::format("{:<16} {:>6.0f} MB  {:<28} {:<20} {}\n", known.name, static_cast<double>(known.bytes) / 1e6,
                        known.title, known.licence, path ? *path : "not fetched");
    list.push_back({{"name", known.name},
                    {"title", known.title},
                    {"licence", known.licence},
                    {"bytes", known.bytes},
                    {"sha256", known.sha256},
                    {"path", path ? nlohmann::ordered_json(*path) : nlohmann::ordered_json()}});
  }
  DSPARK_RETURN_IF_ERROR(json ? write_json({{"models", std::move(list)}}) : write_output(text));
  return ExitCode::kOk;
}

}  // namespace dspark
