// The registry behind format.h. Constant data, any thread.
#include "kernels/formats/format.h"

#include <array>

#include "base/check.h"
#include "kernels/formats/format_list.h"

namespace dspark {
namespace {

#define DSPARK_FORMAT_ADDRESS(name) &k##name##Format,
constexpr std::array<const Format*, kDTypeCount> kFormats = {DSPARK_FORMATS(DSPARK_FORMAT_ADDRESS)};
#undef DSPARK_FORMAT_ADDRESS

}  // namespace

const Format& format_of(DType type) {
  const auto index = static_cast<size_t>(type);
  DSPARK_CHECK(index < kFormats.size(), "DType {}", index);
  return *kFormats[index];
}

}  // namespace dspark
