// See byte_trie.h.
#include "text/byte_trie.h"

#include <bit>
#include <utility>

#include "base/check.h"

namespace dspark {

ByteTrie::ByteTrie(size_t capacity) {
  size_t slots = 64;
  while (slots < capacity * 2) slots *= 2;
  edges_.resize(slots);
  shift_ = 64 - std::countr_zero(slots);
}

void ByteTrie::insert(std::string_view text, int32_t id) {
  DSPARK_CHECK(!text.empty(), "an empty string in a trie");
  uint32_t* node = &root_[static_cast<uint8_t>(text[0])];
  auto make_node = [&] {
    ids_.push_back(-1);
    DSPARK_CHECK(ids_.size() <= size_t{1} << 24, "a trie of {} nodes", ids_.size());
    return static_cast<uint32_t>(ids_.size() - 1);
  };
  if (*node == 0) *node = make_node();
  uint32_t at = *node;
  for (const char c : text.substr(1)) {
    const uint32_t key = at << 8 | static_cast<uint8_t>(c);
    size_t edge = slot(key);
    if (edges_[edge].key == kFree) {
      if ((used_ + 1) * 2 > edges_.size()) {
        grow();
        edge = slot(key);
      }
      edges_[edge] = {key, make_node()};
      ++used_;
    }
    at = edges_[edge].child;
  }
  ids_[at] = id;
}

void ByteTrie::grow() {
  std::vector<Edge> old(edges_.size() * 2);
  old.swap(edges_);
  --shift_;
  for (const Edge& edge : old) {
    if (edge.key != kFree) edges_[slot(edge.key)] = edge;
  }
}

}  // namespace dspark
