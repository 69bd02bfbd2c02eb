// A shared library that only some commands need, loaded at its first use: what it and its dependencies would cost every
// other command in start time and resident memory (7 MB for libcurl, its TLS and LDAP, and oneDNN) is not paid.
// Any thread; a loaded library stays until the process ends.
#pragma once

#include <string>

#include "base/result.h"

namespace dspark {

class SharedLibrary {
 public:
  // `soname` as the dynamic linker looks it up; `package` is the Debian package that the error names.
  static Result<SharedLibrary> open(const std::string& soname, const std::string& package);

  // Points `function` to the symbol of that name.
  template <class Function>
  Status bind(const char* name, Function*& function) const {
    DSPARK_TRY(void* const address, symbol(name));
    function = reinterpret_cast<Function*>(address);
    return Ok{};
  }

 private:
  SharedLibrary(void* handle, std::string soname, std::string package)
      : handle_(handle), soname_(std::move(soname)), package_(std::move(package)) {}
  Result<void*> symbol(const char* name) const;

  void* handle_;
  std::string soname_;
  std::string package_;
};

}  // namespace dspark
