// What a block of KV is the KV of (docs/kv-cache.md, block law): the root digest over everything that its bytes depend
// on besides the tokens, and the chain of digests over its tokens and all those before. Pure; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/sha256.h"
#include "kernels/dtype.h"

namespace dspark {

// Goes up with every change of how bytes lie in a block.
inline constexpr uint32_t kKvLayoutVersion = 1;

// The fields of the root that are the same for a whole cache.
struct KvRootKey {
  Sha256Digest model = {};
  std::string quantisation;  // of the weights at load time, as in `--quantize`; "" for as they lie in the file
  Sha256Digest tokenizer = {};
  DType kv_type = DType::kF16;
  std::optional<Sha256Digest> adapter = {};
};

// The root of one tenant and salt: tagged, length-prefixed fields into SHA-256.
Sha256Digest kv_root(const KvRootKey& key, std::string_view tenant, std::string_view salt);

// The digest of a whole block: over its parent's (the root's for the first) and its tokens.
Sha256Digest kv_block_digest(const Sha256Digest& parent, std::span<const int32_t> tokens);

// Tests cut the digest down to provoke collisions.
using KvBlockDigest = std::function<Sha256Digest(const Sha256Digest& parent, std::span<const int32_t> tokens)>;

}  // namespace dspark
