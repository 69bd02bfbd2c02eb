// See api_keys.h.
#include "server/api_keys.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "base/mmap.h"
#include "base/printable.h"

namespace dspark {
namespace {

Status check_members(const nlohmann::json& object, std::initializer_list<std::string_view> known,
                     std::string_view name) {
  for (const auto& [member, value] : object.items()) {
    if (std::find(known.begin(), known.end(), member) == known.end()) {
      return make_error(ErrorCode::kCorrupt, "{}: unknown member {}; known: {}", name, quote(member),
                        fmt::join(known, ", "));
    }
  }
  return Ok{};
}

Status read_limits(const nlohmann::json& limits, std::string_view name, ApiKey* key) {
  const struct {
    const char* member;
    int* value;
  } rows[] = {{"max_concurrent", &key->max_concurrent},
              {"requests_per_minute", &key->requests_per_minute},
              {"max_choices", &key->max_choices},
              {"max_tokens", &key->max_tokens},
              {"max_prompt_tokens", &key->max_prompt_tokens}};
  DSPARK_RETURN_IF_ERROR(check_members(
      limits, {"max_concurrent", "requests_per_minute", "max_choices", "max_tokens", "max_prompt_tokens"}, name));
  for (const auto& row : rows) {
    DSPARK_TRY(*row.value, json_get_or<int32_t>(limits, row.member, 0, name));
    if (*row.value < 0)
      return make_error(ErrorCode::kCorrupt, "{}: {} is {}, expected 0 or more", name, row.member, *row.value);
  }
  return Ok{};
}

Result<std::pair<Sha256Digest, ApiKey>> read_key(const nlohmann::json& entry, const std::string& name) {
  ApiKey key;
  DSPARK_TRY(const std::string hex, json_require<std::string>(entry, "sha256", name));
  DSPARK_RETURN_IF_ERROR(check_members(entry, {"name", "sha256", "tenant", "rights", "limits"}, name));
  const auto digest = sha256_from_hex(hex);
  if (!digest) {
    return make_error(ErrorCode::kCorrupt,
                      "{}: sha256 has {} characters, expected the key's SHA-256 as 64 hexadecimal digits", name,
                      hex.size());
  }
  DSPARK_TRY(key.tenant, json_require<std::string>(entry, "tenant", name));
  if (key.tenant.empty()) return make_error(ErrorCode::kCorrupt, "{}: the tenant is empty, expected a name", name);
  DSPARK_TRY(key.name, json_get_or<std::string>(entry, "name", key.tenant, name));
  DSPARK_TRY(const auto rights, json_get_or<std::vector<std::string>>(entry, "rights", {}, name));
  for (const std::string& right : rights) {
    if (right != "admin" && right != "metrics") {
      return make_error(ErrorCode::kCorrupt, "{}: unknown right {}, expected admin or metrics", name, quote(right));
    }
    key.admin |= right == "admin";
    key.metrics = true;
  }
  if (entry.contains("limits")) DSPARK_RETURN_IF_ERROR(read_limits(entry["limits"], name + ": limits", &key));
  return std::pair(*digest, std::move(key));
}

}  // namespace

Result<ApiKeys> ApiKeys::load(const std::string& path) {
  DSPARK_TRY(const MappedFile file, MappedFile::open(path));
  return parse({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
}

Result<ApiKeys> ApiKeys::parse(std::string_view text, std::string_view name) {
  DSPARK_TRY(const nlohmann::json json, parse_json(text, name, {.max_bytes = 16 << 20, .max_depth = 8}));
  const auto list = json.is_object() ? json.find("keys") : json.end();
  if (!json.is_object() || list == json.end() || !list->is_array() || list->empty()) {
    return make_error(ErrorCode::kCorrupt, "{}: expected an object with a list \"keys\" that is not empty", name);
  }
  ApiKeys out;
  out.required_ = true;
  for (size_t i = 0; i < list->size(); ++i) {
    DSPARK_TRY(auto entry, read_key((*list)[i], fmt::format("{}: keys[{}]", name, i)));
    if (!out.keys_.emplace(std::move(entry)).second) {
      return make_error(ErrorCode::kCorrupt, "{}: keys[{}] has the sha256 of a key before it", name, i);
    }
  }
  return out;
}

const ApiKey* ApiKeys::find(std::string_view authorization) const {
  if (!required_) return &everybody_;
  constexpr std::string_view kScheme = "bearer ";  // in any case (RFC 9110, section 11.1)
  const auto same = [](char given, char lower) { return (given >= 'A' && given <= 'Z' ? given + 32 : given) == lower; };
  if (!std::ranges::equal(authorization.substr(0, kScheme.size()), kScheme, same)) return nullptr;
  // The hash is looked up, not the key: how long that takes tells nothing about the keys.
  const auto it = keys_.find(sha256(authorization.substr(kScheme.size())));
  return it == keys_.end() ? nullptr : &it->second;
}

bool ApiKeys::has_tenant(std::string_view tenant) const {
  if (!required_) return tenant == everybody_.tenant;
  return std::any_of(keys_.begin(), keys_.end(), [&](const auto& entry) { return entry.second.tenant == tenant; });
}

std::optional<ApiError> KeyUse::enter(const ApiKey& key, Clock::time_point now) {
  if (key.max_concurrent > 0 && running_ >= key.max_concurrent) {
    return ApiError{.status = 429,
                    .message = fmt::format("{} requests of this key are running, at most {} may; wait for one to end",
                                           running_, key.max_concurrent),
                    .code = "rate_limit_exceeded",
                    .retry_after_s = 1};
  }
  if (key.requests_per_minute > 0) {
    const double rate = key.requests_per_minute / 60.0;
    const double passed = filled_ == Clock::time_point{} ? 60.0 : std::chrono::duration<double>(now - filled_).count();
    allowance_ = std::min<double>(key.requests_per_minute, allowance_ + passed * rate);
    filled_ = now;
    if (allowance_ < 1) {
      return ApiError{
          .status = 429,
          .message = fmt::format("this key may start {} requests a minute; try again later", key.requests_per_minute),
          .code = "rate_limit_exceeded",
          .retry_after_s = static_cast<int>(std::ceil((1 - allowance_) / rate))};
    }
    allowance_ -= 1;
  }
  ++running_;
  return std::nullopt;
}

}  // namespace dspark
