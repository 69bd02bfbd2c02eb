// Matrix products of training: those of gemm.h against OpenBLAS, where that is installed, in alternation. Prints
// GFLOP/s by the processor time of all threads, which neighbours on a shared machine disturb least, and by the clock.
// Not part of the build: `ninja gemm_benchmark && ./gemm_benchmark [threads]`; OPENBLAS_CORETYPE and DNNL_MAX_CPU_ISA
// choose the instruction set.
#include "train/gemm.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "base/median.h"

namespace {

struct Contender {
  std::string name;
  // c [m, n] = a [m, k] b [n, k]^T, dense
  std::function<void(int m, int n, int k, const float* a, const float* b, float* c)> run;
  std::vector<double> cpu_seconds = {}, seconds = {};
};

double cpu_now() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

void add_openblas(int threads, std::vector<Contender>* all) {
  void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  using Sgemm = void (*)(int order, int ta, int tb, int m, int n, int k, float alpha, const float* a, int lda,
                         const float* b, int ldb, float beta, float* c, int ldc);
  const auto sgemm = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
  const auto set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  const auto core = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_corename"));
  if (sgemm == nullptr || set_threads == nullptr || core == nullptr) return;
  set_threads(threads);
  all->push_back(
      {fmt::format("openblas ({})", core()), [sgemm](int m, int n, int k, const float* a, const float* b, float* c) {
         constexpr int kRowMajor = 101, kNo = 111, kTransposed = 112;
         sgemm(kRowMajor, kNo, kTransposed, m, n, k, 1.0f, a, k, b, k, 0.0f, c, n);
       }});
}

}  // namespace

int main(int argc, char** argv) {
  using namespace dspark;
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  ThreadPool pool({.threads = threads});
  std::vector<Contender> all;
  all.push_back({"onednn", [&pool](int m, int n, int k, const float* a, const float* b, float* c) {
                   multiply(&pool, m, n, k, {a, k}, transposed(b, k), c, n, false);
                 }});
  add_openblas(threads, &all);
  const int shapes[][3] = {{448, 576, 576}, {448, 1536, 576}, {448, 576, 1536}, {448, 8192, 576}, {2048, 576, 2304}};
  for (const auto& [m, n, k] : shapes) {
    std::vector<float> a(static_cast<size_t>(m) * k, 0.5f), b(static_cast<size_t>(n) * k, 0.25f),
        c(static_cast<size_t>(m) * n);
    for (Contender& one : all) {
      one.cpu_seconds.clear();
      one.seconds.clear();
      one.run(m, n, k, a.data(), b.data(), c.data());
    }
    for (int repeat = 0; repeat < 15; ++repeat) {
      for (Contender& one : all) {
        const double cpu = cpu_now();
        const auto start = std::chrono::steady_clock::now();
        one.run(m, n, k, a.data(), b.data(), c.data());
        one.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        one.cpu_seconds.push_back(cpu_now() - cpu);
      }
    }
    const double flops = 2e-9 * m * n * k;
    for (const Contender& one : all) {
      fmt::print("{:5} x {:5} x {:5}  {:24} {:7.1f} GFLOP/s of processor time on {} cores, {:7.1f} by the clock\n", m,
                 n, k, one.name, threads * flops / median(one.cpu_seconds), threads, flops / median(one.seconds));
    }
  }
  return 0;
}
