// `dspark bench`: measurements of the machine and of what dspark reaches on it. Main thread and the pool's workers.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "kernels/kernel_bench.h"
#include "tools/command.h"
#include "tools/compute.h"
#include "tools/io.h"
#include "tools/progress.h"

namespace dspark {
namespace {

// More than any cache, so that what is measured is memory.
constexpr int64_t kBandwidthBytes = int64_t{256} << 20;

Result<ExitCode> bench_kernels(const Settings& settings) {
  DSPARK_TRY(const Isa isa, chosen_isa(settings));
  ThreadPool pool(pool_options(settings));
  Progress progress("kernels", ProgressUnit::kSteps, kDTypeCount + 2);
  const PeakRates peak = measure_peak(pool, isa);
  progress.update(1);
  std::vector<KernelRate> rates;
  for (int i = 0; i < kDTypeCount; ++i) {
    rates.push_back(measure_kernel(pool, isa, static_cast<DType>(i), peak));
    progress.update(i + 2);
  }
  const double bandwidth = measure_bandwidth(pool, kBandwidthBytes) * 1e-9;

  if (settings.get<"json">()) {
    nlohmann::ordered_json json = {
        {"isa", isa_name(isa)},
        {"threads", pool.size()},
        {"peak_gmacs", {{"narrow", peak.narrow_gmacs}, {"wide", peak.wide_gmacs}, {"float", peak.float_gmacs}}},
        {"bandwidth_gb_per_s", bandwidth}};
    for (const KernelRate& rate : rates) {
      json["kernels"].push_back({{"type", dtype_info(rate.type).name},
                                 {"gmacs", rate.gmacs},
                                 {"packed_gmacs", rate.packed_gmacs},
                                 {"peak_share", rate.peak_share}});
    }
    DSPARK_RETURN_IF_ERROR(write_json(json));
    return ExitCode::kOk;
  }
  std::string out = fmt::format(
      "{}, {} threads; peak in registers: {:.0f} GMAC/s narrow, {:.0f} wide, {:.0f} float; memory {:.1f} GB/s\n\n"
      "{:<8} {:>10} {:>14} {:>12}\n",
      isa_name(isa), pool.size(), peak.narrow_gmacs, peak.wide_gmacs, peak.float_gmacs, bandwidth, "type", "GMAC/s",
      "still packed", "of peak");
  for (const KernelRate& rate : rates) {
    out += fmt::format("{:<8} {:>10.1f} {:>14.1f} {:>11.0f}%\n", dtype_info(rate.type).name, rate.gmacs,
                       rate.packed_gmacs, 100 * rate.peak_share);
  }
  DSPARK_RETURN_IF_ERROR(write_output(out));
  return ExitCode::kOk;
}

}  // namespace

Result<ExitCode> cmd_bench(const Invocation& call) {
  const std::string& what = call.operands[0];
  if (what == "kernels") return bench_kernels(call.settings);
  return make_error(ErrorCode::kInvalidArgument, "'{}' cannot be measured; known: kernels", printable(what));
}

}  // namespace dspark
