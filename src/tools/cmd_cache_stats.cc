// `dspark cache-stats`: what a running server says of its KV cache. Main thread.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "tools/command.h"
#include "tools/io.h"
#include "tools/server_client.h"

namespace dspark {
namespace {

using Json = nlohmann::json;

// A number of the report; 0 where this server has none of this name.
double number(const Json& report, const char* pointer) {
  const Json::json_pointer at(pointer);
  return report.contains(at) && report[at].is_number() ? report[at].get<double>() : 0.0;
}

std::string text(const Json& r) {
  const auto n = [&](const char* pointer) { return number(r, pointer); };
  const auto percent = [&](const char* pointer) { return fmt::format("{:.1f}%", 100 * n(pointer)); };
  std::string out;
  const auto line = [&](std::string_view name, const std::string& value) {
    out += fmt::format("{:<15} {}\n", name, value);
  };
  line("capacity",
       fmt::format("{:.0f} blocks of {:.0f} tokens, {:.1f} MB; {:.1f} MB taken so far", n("/capacity_blocks"),
                   n("/block_tokens"), n("/capacity_blocks") * n("/block_bytes") / 1e6, n("/memory_bytes") / 1e6));
  line("blocks",
       fmt::format("{:.0f} used by {:.0f} sequences, {:.0f} cached, {:.0f} pinned, {:.0f} free", n("/used_blocks"),
                   n("/sequences"), n("/cached_blocks"), n("/pinned_blocks"), n("/free_blocks")));
  line("prompt tokens", fmt::format("{:.0f}, of which {:.0f} ({}) reused", n("/counters/prompt_tokens"),
                                    n("/counters/hit_tokens"), percent("/kv_reuse_ratio")));
  line("block lookups", fmt::format("{:.0f}, of which {:.0f} ({}) hit", n("/counters/block_lookups"),
                                    n("/counters/block_hits"), percent("/block_hit_ratio")));
  line("evictions", fmt::format("{:.0f}", n("/counters/evictions")));
  line("conflicts", fmt::format("{:.0f} ({:.2f}% of lookups)", n("/counters/conflicts"), 100 * n("/conflict_ratio")));
  line("collisions", fmt::format("{:.0f}", n("/counters/hash_collisions")));
  line("lock waits", fmt::format("{:.0f}, {:.3f} s", n("/counters/lock_waits"), n("/counters/lock_wait_seconds")));
  line("fragmentation", fmt::format("{}: slack {}, scatter {}", percent("/cache_fragmentation_ratio"),
                                    percent("/slack_ratio"), percent("/scatter_ratio")));
  line("accounting", printable(r.value("accounting", "unknown"), 200));
  return out;
}

}  // namespace

Result<ExitCode> cmd_cache_stats(const Invocation& call) {
  DSPARK_TRY(const ServerClient server,
             ServerClient::create(call.settings, call.operands.empty() ? "" : call.operands[0]));
  DSPARK_TRY(const Json report, server.get("/debug/cache"));
  DSPARK_RETURN_IF_ERROR(call.settings.get<"json">() ? write_json(report) : write_output(text(report)));
  return ExitCode::kOk;
}

}  // namespace dspark
