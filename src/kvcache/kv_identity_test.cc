// Tests of kv_identity.h.
#include "kvcache/kv_identity.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace dspark {
namespace {

TEST(KvRoot, DependsOnEveryField) {
  std::set<Sha256Digest> roots;
  KvRootKey key;
  roots.insert(kv_root(key, "tenant", "salt"));
  roots.insert(kv_root(key, "tenant", ""));
  roots.insert(kv_root(key, "", "tenant"));
  roots.insert(kv_root(key, "ten", "antsalt"));
  roots.insert(kv_root(key, "tenantsalt", ""));
  key.model[31] = 1;
  roots.insert(kv_root(key, "tenant", "salt"));
  key.quantisation = "q8_0";
  roots.insert(kv_root(key, "tenant", "salt"));
  key.tokenizer[0] = 1;
  roots.insert(kv_root(key, "tenant", "salt"));
  key.kv_type = DType::kQ8_0;
  roots.insert(kv_root(key, "tenant", "salt"));
  key.adapter = Sha256Digest{};
  roots.insert(kv_root(key, "tenant", "salt"));
  key.adapter->back() = 1;
  roots.insert(kv_root(key, "tenant", "salt"));
  EXPECT_EQ(roots.size(), 11u);
  EXPECT_EQ(kv_root(key, "tenant", "salt"), kv_root(key, "tenant", "salt"));
}

TEST(KvBlockDigest, ChainsParentAndTokens) {
  const std::vector<int32_t> tokens = {1, 2, 3};
  const std::vector<int32_t> others = {1, 2, 4};
  const Sha256Digest root = kv_root({}, "", "");
  const Sha256Digest first = kv_block_digest(root, tokens);
  EXPECT_NE(first, kv_block_digest(root, others));
  EXPECT_NE(first, kv_block_digest(first, tokens));
  // Python: f = lambda tag, value: struct.pack("<QQ", len(tag), len(value)) + tag + value
  //         sha256(f(b"parent", bytes(32)) + f(b"tokens", struct.pack("<3i", 1, 2, 3)))
  EXPECT_EQ(to_hex(kv_block_digest({}, tokens)), "729dfb2aeaaa70ac146cf13d3c7b9cf3cecfd50453305be2a3b5c6ae8a8a1997");
}

}  // namespace
}  // namespace dspark
