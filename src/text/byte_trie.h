// ByteTrie: all stored strings that a text begins with, in one walk. Edges live in one hash table keyed by (node,
// byte). Const after the last insert(): any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace dspark {

class ByteTrie {
 public:
  // For up to `capacity` edges at first; grows.
  explicit ByteTrie(size_t capacity = 0);

  // At most 2^24 nodes: the caller bounds what it inserts. A string that is there already gets the new id.
  void insert(std::string_view text, int32_t id);

  // Calls visit(length, id) for each stored string that is a prefix of `text`, shortest first.
  template <class Visit>
  void prefixes(std::string_view text, Visit&& visit) const {
    if (text.empty()) return;
    uint32_t node = root_[static_cast<uint8_t>(text[0])];
    for (size_t length = 1; node != 0; ++length) {
      if (ids_[node] >= 0) visit(length, ids_[node]);
      if (length == text.size()) return;
      node = child(node, static_cast<uint8_t>(text[length]));
    }
  }

  bool may_begin_with(char c) const { return root_[static_cast<uint8_t>(c)] != 0; }

 private:
  struct Edge {
    uint32_t key = kFree;  // node << 8 | byte
    uint32_t child = 0;
  };
  static constexpr uint32_t kFree = 0xFFFFFFFF;

  // The slot of `key`, or the free one where it belongs.
  size_t slot(uint32_t key) const {
    size_t at = (key * uint64_t{0x9E3779B97F4A7C15}) >> shift_;
    while (edges_[at].key != key && edges_[at].key != kFree) at = (at + 1) & (edges_.size() - 1);
    return at;
  }
  uint32_t child(uint32_t node, uint8_t byte) const { return edges_[slot(node << 8 | byte)].child; }
  void grow();

  std::array<uint32_t, 256> root_{};  // node 0 has no hash edges
  std::vector<Edge> edges_;
  int shift_ = 0;  // 64 - log2(edges_.size())
  size_t used_ = 0;
  std::vector<int32_t> ids_{-1};  // by node; -1: no string ends here
};

}  // namespace dspark
