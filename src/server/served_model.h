// ServedModel: what the server needs of a loaded model and its engine. Immutable once it is served, any thread; but
// what `config` points to is the network thread's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/request.h"
#include "server/health.h"
#include "server/live_config.h"
#include "server/metrics.h"
#include "server/tool_parser.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace dspark {

struct ServedModel {
  const Tokenizer& tokenizer;
  const ChatTemplate& chat_template;
  Serving& serving;  // outlives HttpServer::stop(), and ends before the HttpServer does
  int context = 0;   // positions of a sequence
  int64_t vocab = 0;
  int64_t hidden_size = 0;  // numbers of an embedding
  int tokenizer_threads = 1;
  std::string fingerprint;  // digest of the model and of every setting that can change tokens
  ToolFormat tools = ToolFormat::kHermes;
  // Asked on the network thread, any time; may be null.
  std::function<std::vector<MetricSample>()> metrics = {};
  std::function<nlohmann::ordered_json()> debug_cache = {};
  std::shared_ptr<LiveConfig> config = {};  // null: nothing can be changed
  const HealthMonitor* health = nullptr;    // null: nobody watches; else it lives as long as `serving`
};

}  // namespace dspark
