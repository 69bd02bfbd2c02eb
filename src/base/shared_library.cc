// See shared_library.h.
#include "base/shared_library.h"

#include <dlfcn.h>

#include "base/printable.h"

namespace dspark {

Result<SharedLibrary> SharedLibrary::open(const std::string& soname, const std::string& package) {
  void* const handle = dlopen(soname.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle != nullptr) return SharedLibrary(handle, soname, package);
  const char* const cause = dlerror();
  return make_error(ErrorCode::kUnavailable, "{}: {}; install it with `apt-get install {}`", soname,
                    printable(cause != nullptr ? cause : "cannot be loaded", 200), package);
}

Result<void*> SharedLibrary::symbol(const char* name) const {
  void* const address = dlsym(handle_, name);
  if (address != nullptr) return address;
  return make_error(ErrorCode::kUnsupported, "{} has no {}; `apt-get install {}` brings a version that does", soname_,
                    name, package_);
}

}  // namespace dspark
