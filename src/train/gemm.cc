// See gemm.h.
#include "train/gemm.h"

#include <dnnl.h>

#include <algorithm>

#include "base/check.h"
#include "base/shared_library.h"

namespace dspark {
namespace {

struct GemmApi {
  decltype(&::dnnl_sgemm) sgemm = nullptr;
  void (*set_threads)(int) = nullptr;
};

Result<GemmApi> load() {
  GemmApi api;
  DSPARK_TRY(const SharedLibrary dnnl, SharedLibrary::open(fmt::format("libdnnl.so.{}", DNNL_VERSION_MAJOR),
                                                           fmt::format("libdnnl{}", DNNL_VERSION_MAJOR)));
  DSPARK_RETURN_IF_ERROR(dnnl.bind("dnnl_sgemm", api.sgemm));
  DSPARK_TRY(const SharedLibrary openmp, SharedLibrary::open("libgomp.so.1", "libgomp1"));
  DSPARK_RETURN_IF_ERROR(openmp.bind("omp_set_num_threads", api.set_threads));
  return api;
}

const Result<GemmApi>& gemm_api() {
  static const Result<GemmApi> api = load();
  return api;
}

void multiply_here(int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b, float* c, int64_t stride, bool add) {
  const GemmApi& api = *gemm_api();
  // oneDNN would start a team of its own for each caller; the pool's workers are the team.
  api.set_threads(1);
  const dnnl_status_t status = api.sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0f, a.data,
                                         a.stride, b.data, b.stride, add ? 1.0f : 0.0f, c, stride);
  DSPARK_CHECK(status == dnnl_success, "dnnl_sgemm({}, {}, {}): status {}", m, n, k, static_cast<int>(status));
}

}  // namespace

Status load_gemm() {
  if (!gemm_api().ok()) return gemm_api().error();
  return Ok{};
}

void multiply(ThreadPool* pool, int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b, float* c, int64_t stride,
              bool add) {
  if (m == 0 || n == 0) return;
  constexpr int64_t kTaskProducts = 1 << 23;  // a fraction of a millisecond
  constexpr int64_t kUnit = 48;               // rows or columns that a task takes a multiple of
  const int64_t longer = std::max(m, n);
  const int64_t parts = std::clamp<int64_t>(m * n * k / kTaskProducts, 1, 32);
  const int64_t width = ((longer + parts - 1) / parts + kUnit - 1) / kUnit * kUnit;
  const int64_t tasks = (longer + width - 1) / width;
  if (pool == nullptr || tasks == 1) return multiply_here(m, n, k, a, b, c, stride, add);
  pool->run(static_cast<int>(tasks), [&](int task) {
    const int64_t first = task * width, count = std::min(width, longer - first);
    if (n >= m) {
      const MatrixView columns = {b.data + first * (b.transposed ? b.stride : 1), b.stride, b.transposed};
      multiply_here(m, count, k, a, columns, c + first, stride, add);
    } else {
      const MatrixView rows = {a.data + first * (a.transposed ? 1 : a.stride), a.stride, a.transposed};
      multiply_here(count, n, k, rows, b, c + first * stride, stride, add);
    }
  });
}

}  // namespace dspark
