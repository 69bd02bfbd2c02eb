// Checks and numbers of config.h. Any thread.
#include "model/config.h"

#include <cmath>
#include <initializer_list>

#include "base/exact_math.h"

namespace dspark {
namespace {

struct Bound {
  const char* what;
  int64_t value, low, high;
};

Status check_bounds(std::initializer_list<Bound> bounds, const std::string& path) {
  for (const Bound& bound : bounds) {
    if (bound.value < bound.low || bound.value > bound.high) {
      return make_error(ErrorCode::kCorrupt, "{}: {} is {}, expected {} to {}", path, bound.what, bound.value,
                        bound.low, bound.high);
    }
  }
  return Ok{};
}

}  // namespace

std::vector<double> rope_frequencies(const RopeConfig& rope, int head_dim) {
  std::vector<double> out;
  for (int i = 0; i < head_dim / 2; ++i) {
    double frequency = exact_pow(rope.base, -2.0 * i / head_dim) / rope.scale;
    if (!rope.factors.empty()) frequency /= static_cast<double>(rope.factors[static_cast<size_t>(i)]);
    out.push_back(frequency);
  }
  return out;
}

Status check_shape(const ModelConfig& c, const std::string& path) {
  return check_bounds({{"layer count", c.layers, 1, 1024},
                       {"hidden size", c.hidden, 1, 1 << 17},
                       {"head count", c.heads, 1, 1024},
                       {"KV head count", c.kv_heads, 1, c.heads},
                       {"head dimension", c.head_dim, 16, 512},
                       {"vocabulary size", c.vocab, 1, 1 << 24},
                       {"context length", c.context, 1, 1 << 28}},
                      path);
}

Status check_config(const ModelConfig& c, const std::string& path) {
  DSPARK_RETURN_IF_ERROR(check_shape(c, path));
  DSPARK_RETURN_IF_ERROR(check_bounds({{"feed-forward size", c.ffn, c.experts > 0 ? 0 : 1, 1 << 20},
                                       {"sliding window", c.window, c.local.empty() ? 0 : 1, 1 << 28},
                                       {"expert count", c.experts, 0, 4096},
                                       {"experts used", c.experts_used, c.experts > 0 ? 1 : 0, c.experts},
                                       {"expert feed-forward size", c.expert_ffn, c.experts > 0 ? 1 : 0, 1 << 20}},
                                      path));
  if (c.heads % c.kv_heads != 0) {
    return make_error(ErrorCode::kCorrupt, "{}: {} heads are no multiple of {} KV heads", path, c.heads, c.kv_heads);
  }
  if (c.head_dim % 16 != 0) {
    return make_error(ErrorCode::kUnsupported, "{}: head dimension {} is no multiple of 16", path, c.head_dim);
  }
  for (const RopeConfig* rope : {&c.rope, &c.local_rope}) {
    if (!(rope->base >= 1.0 && rope->base <= 1e15) || !(rope->scale >= 1e-3 && rope->scale <= 1e6)) {
      return make_error(ErrorCode::kCorrupt, "{}: RoPE base {} with scale {}, expected 1 to 1e15 and 0.001 to 1e6",
                        path, rope->base, rope->scale);
    }
    if (!rope->factors.empty() && rope->factors.size() != static_cast<size_t>(c.head_dim / 2)) {
      return make_error(ErrorCode::kCorrupt, "{}: {} RoPE factors, expected {}", path, rope->factors.size(),
                        c.head_dim / 2);
    }
  }
  if (!(c.query_scale > 0.0f) || !std::isfinite(c.query_scale)) {
    return make_error(ErrorCode::kCorrupt, "{}: scale of the queries {}, expected above 0", path, c.query_scale);
  }
  if (!(c.norm_eps > 0.0f && c.norm_eps < 1.0f)) {
    return make_error(ErrorCode::kCorrupt, "{}: norm epsilon {}, expected above 0 and below 1", path, c.norm_eps);
  }
  return Ok{};
}

}  // namespace dspark
