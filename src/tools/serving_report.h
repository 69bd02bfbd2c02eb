// What a serving engine tells of itself: for /metrics, /debug/cache and the fingerprint of its answers. Any thread.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/settings.h"
#include "engine/engine.h"
#include "server/metrics.h"

namespace dspark {

std::vector<MetricSample> engine_metrics(Engine& engine);

// All numbers of the cache; and "accounting": "closed", or what KvCache::check() found wrong.
nlohmann::ordered_json cache_report(const KvCache& kv);

// "fp_" and the digest of the model's files and of every setting of `dspark serve` that can change tokens.
std::string fingerprint(const Settings& settings, Engine& engine);

}  // namespace dspark
