// FeatureStore: target features on disk, so that a conversation that comes again is read instead of computed. One
// append-only file; each record is checked when it is read, and a damaged one is computed again. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "train/features.h"

namespace dspark {

class FeatureStore {
 public:
  // The file is for one model digest and list of layers; with others it starts again from nothing. At most `max_bytes`
  // are written; 0 keeps nothing.
  static Result<FeatureStore> open(const std::string& path, const std::string& digest, std::span<const int> layers,
                                   int64_t max_bytes);
  FeatureStore(FeatureStore&& other) noexcept;
  ~FeatureStore();

  // From the file, or else from the target.
  Result<TargetFeatures> get(Runner& runner, std::span<const int> layers, const TrainConversation& conversation);

  int64_t hits() const { return hits_; }
  int64_t misses() const { return misses_; }

 private:
  explicit FeatureStore(int64_t max_bytes) : max_bytes_(max_bytes) {}
  void scan();
  std::optional<TargetFeatures> read(int64_t offset, const TrainConversation& conversation, size_t width) const;
  void append(const std::string& id, const TargetFeatures& features);

  int64_t max_bytes_;
  int fd_ = -1;
  int64_t end_ = 0;  // of the whole records
  std::unordered_map<std::string, int64_t> offsets_;
  int64_t hits_ = 0, misses_ = 0;
};

}  // namespace dspark
