// See kv_identity.h.
#include "kvcache/kv_identity.h"

namespace dspark {

Sha256Digest kv_root(const KvRootKey& key, std::string_view tenant, std::string_view salt) {
  Sha256 hash;
  hash.add_field("dspark-kv", uint64_t{kKvLayoutVersion});
  hash.add_field("model", key.model);
  hash.add_field("quantisation", key.quantisation);
  hash.add_field("tokenizer", key.tokenizer);
  hash.add_field("kv-type", dtype_info(key.kv_type).name);
  if (key.adapter) hash.add_field("adapter", *key.adapter);
  hash.add_field("tenant", tenant);
  hash.add_field("salt", salt);
  return hash.finish();
}

Sha256Digest kv_block_digest(const Sha256Digest& parent, std::span<const int32_t> tokens) {
  Sha256 hash;
  hash.add_field("parent", parent);
  hash.add_field("tokens", std::span(reinterpret_cast<const uint8_t*>(tokens.data()), tokens.size_bytes()));
  return hash.finish();
}

}  // namespace dspark
