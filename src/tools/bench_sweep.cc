// See bench_sweep.h. The load client, the report and the plots are Python, shared with the project's other benchmarks.
#include "tools/bench_sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tools/server_client.h"

namespace dspark {
namespace {

constexpr const char* kScript = "bench_sweep.py";

struct Program {
  std::string file, script;
};

// The script in ../scripts, as the project is built, or in ../share/dspark/scripts, as it is installed.
Result<Program> find_script() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path around = program.parent_path().parent_path();
  for (const auto& folder : {around / "scripts", around / "share" / "dspark" / "scripts"}) {
    if (std::filesystem::exists(folder / kScript, error)) return Program{program.string(), (folder / kScript).string()};
  }
  return make_error(ErrorCode::kNotFound, "{} lies neither in {}/scripts nor in {}/share/dspark/scripts", kScript,
                    around.string(), around.string());
}

std::vector<std::string> arguments(const Settings& settings, const Program& program, const ServerClient& server) {
  std::vector<std::string> out = {"python3", program.script, "--dspark", program.file};
  const auto add = [&](const char* flag, std::string value) { out.insert(out.end(), {flag, std::move(value)}); };
  std::vector<std::string> servers = settings.get<"server">();
  if (servers.empty()) servers = {server.url()};
  for (const std::string& each : servers) add("--server", each);
  for (const std::string& file : settings.get<"prompts">()) add("--prompts", file);
  for (const std::string& mode : settings.get<"modes">()) add("--modes", mode);
  if (settings.is_set<"model">()) add("--model", settings.get<"model">());
  if (settings.is_set<"clients">()) add("--clients", fmt::format("{}", fmt::join(settings.get<"clients">(), ",")));
  if (settings.is_set<"repeats">()) add("--rounds", fmt::format("{}", settings.get<"repeats">()));
  if (settings.is_set<"max-tokens">()) add("--answer", fmt::format("{}", settings.get<"max-tokens">()));
  add("--seed", fmt::format("{}", settings.get<"seed">()));
  add("--arrivals", settings.get<"arrivals">());
  if (const std::string folder = settings.get<"out">(); !folder.empty()) add("--out", folder);
  return out;
}

}  // namespace

Result<ExitCode> bench_sweep(const Settings& settings) {
  if (settings.get<"prompts">().empty()) {
    return make_error(ErrorCode::kInvalidArgument, "no prompts to ask; name a file with --prompts FILE");
  }
  DSPARK_TRY(const Program program, find_script());
  DSPARK_TRY(const ServerClient server, ServerClient::create(settings, ""));
  std::vector<std::string> words = arguments(settings, program, server);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  if (const std::string key = settings.get<"api-key">(); !key.empty()) setenv("DSPARK_API_KEY", key.c_str(), 1);
  execvp(argv[0], argv.data());
  return make_error(ErrorCode::kUnsupported, "python3 cannot be run ({}); apt-get install python3",
                    std::strerror(errno));
}

}  // namespace dspark
