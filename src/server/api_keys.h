// ApiKeys: who may ask, on whose account, and how much (docs/server.md has the file's format). Keys are kept as SHA-256
// only. KeyUse counts what a key is doing; network thread. Everything else is immutable: any thread.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/sha256.h"
#include "server/api_error.h"

namespace dspark {

struct ApiKey {
  std::string name;      // in the log
  std::string tenant;    // prefixes in the cache are shared within one tenant only
  bool admin = false;    // may read /debug/cache
  bool metrics = false;  // may read /metrics; admin may, too
  // 0: no limit of the key's own.
  int max_concurrent = 0;
  int requests_per_minute = 0;
  int max_choices = 0;
  int max_tokens = 0;
  int max_prompt_tokens = 0;
};

class ApiKeys {
 public:
  // No keys: everybody may do everything, as one tenant.
  ApiKeys() = default;
  static Result<ApiKeys> load(const std::string& path);
  static Result<ApiKeys> parse(std::string_view json, std::string_view name);

  bool required() const { return required_; }
  // The key of an Authorization header ("Bearer ..."); null if it is none of ours. Without keys: everybody's.
  const ApiKey* find(std::string_view authorization) const;
  // Whether there are callers of this tenant; without keys, of "".
  bool has_tenant(std::string_view tenant) const;

 private:
  bool required_ = false;
  ApiKey everybody_{.name = "", .tenant = "", .admin = true, .metrics = true};
  std::map<Sha256Digest, ApiKey> keys_;
};

// How many requests of one key run, and how many more may start now.
class KeyUse {
 public:
  using Clock = std::chrono::steady_clock;
  // Nothing if one more may start, and then it counts until leave().
  std::optional<ApiError> enter(const ApiKey& key, Clock::time_point now);
  void leave() { --running_; }

 private:
  int running_ = 0;
  double allowance_ = 0;  // requests that may start at once
  Clock::time_point filled_{};
};

}  // namespace dspark
