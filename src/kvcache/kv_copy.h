// The bytes of a KV block: where the target's and the drafter's tiles lie, and copying some of its positions. Copies
// touch exactly the positions they are asked for, so that others may be read or written meanwhile. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kv_layout.h"

namespace dspark {

// Positions [first, last) of all heads of one tile.
void copy_kv_positions(const KvLayout& layout, const uint8_t* from, uint8_t* to, int first, int last);

// All target layers' tiles one behind the other, then all of the drafter's.
class KvBlockLayout {
 public:
  KvBlockLayout(std::vector<KvLayout> layers, std::vector<KvLayout> draft_layers);

  int64_t bytes() const { return bytes_; }
  int64_t draft_offset() const { return draft_offset_; }

  void copy_target(const uint8_t* from, uint8_t* to, int first, int last) const;
  void copy_draft(const uint8_t* from, uint8_t* to, int first, int last) const;

 private:
  std::vector<KvLayout> layers_;
  std::vector<KvLayout> draft_layers_;
  int64_t draft_offset_;
  int64_t bytes_;
};

}  // namespace dspark
