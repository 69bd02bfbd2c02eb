// See feature_store.h. The file: a line of JSON that says what it is for, then records of a header, the id, hidden
// states, tokens and probabilities, in the machine's byte order.
#include "train/feature_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/json.h"
#include "base/log.h"

namespace dspark {
namespace {

constexpr uint32_t kMagic = 0x44534631;
constexpr uint32_t kMaxId = 4096;

struct RecordHeader {
  uint32_t magic;
  uint32_t id_bytes;
  int32_t positions, first_prediction;
  uint64_t hidden_values;
  uint64_t check;  // of what follows, FNV-1a over 8 bytes at a time
  int64_t payload_bytes() const {
    const auto predictions = static_cast<int64_t>(positions - first_prediction);
    return id_bytes + static_cast<int64_t>(hidden_values * 2) + predictions * kTargetTokens * 6;
  }
};

bool plausible(const RecordHeader& header) {
  return header.magic == kMagic && header.id_bytes <= kMaxId && header.first_prediction >= 0 &&
         header.positions >= header.first_prediction && header.hidden_values <= uint64_t{1} << 36;
}

uint64_t checksum(const std::string& bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < bytes.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min<size_t>(8, bytes.size() - i));
    hash = (hash ^ word) * 0x100000001b3;
    hash ^= hash >> 31;
  }
  return hash;
}

bool read_exactly(int fd, void* out, size_t bytes, int64_t offset) {
  auto* to = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t got = pread(fd, to, bytes, offset);
    if (got <= 0) return false;
    to += got;
    offset += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool write_exactly(int fd, const std::string& bytes, int64_t offset) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put = pwrite(fd, bytes.data() + done, bytes.size() - done, offset + static_cast<int64_t>(done));
    if (put <= 0) return false;
    done += static_cast<size_t>(put);
  }
  return true;
}

template <class T>
void take(const std::string& bytes, size_t* at, std::vector<T>* out) {
  if (!out->empty()) std::memcpy(out->data(), bytes.data() + *at, out->size() * sizeof(T));
  *at += out->size() * sizeof(T);
}
template <class T>
void put(const std::vector<T>& values, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

}  // namespace

Result<FeatureStore> FeatureStore::open(const std::string& path, const std::string& digest, std::span<const int> layers,
                                        int64_t max_bytes) {
  FeatureStore store(max_bytes);
  if (max_bytes == 0) return store;
  const std::string purpose =
      nlohmann::json{{"digest", digest}, {"layers", std::vector<int>(layers.begin(), layers.end())}}.dump() + "\n";
  store.fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (store.fd_ < 0) {
    return make_error(ErrorCode::kInvalidArgument, "{}: cannot be opened for writing: {}", path, std::strerror(errno));
  }
  std::string found(purpose.size(), '\0');
  store.end_ = static_cast<int64_t>(purpose.size());
  if (read_exactly(store.fd_, found.data(), found.size(), 0) && found == purpose) {
    store.scan();
    return store;
  }
  if (ftruncate(store.fd_, 0) != 0 || !write_exactly(store.fd_, purpose, 0)) {
    return make_error(ErrorCode::kInternal, "{}: cannot be written; is the disk full?", path);
  }
  return store;
}

FeatureStore::FeatureStore(FeatureStore&& other) noexcept
    : max_bytes_(other.max_bytes_),
      fd_(std::exchange(other.fd_, -1)),
      end_(other.end_),
      offsets_(std::move(other.offsets_)) {}

FeatureStore::~FeatureStore() {
  if (fd_ >= 0) close(fd_);
}

// Finds the records; what an interruption tore at the end is overwritten later.
void FeatureStore::scan() {
  const int64_t size = lseek(fd_, 0, SEEK_END);
  RecordHeader header;
  while (read_exactly(fd_, &header, sizeof(header), end_) && plausible(header)) {
    const int64_t next = end_ + static_cast<int64_t>(sizeof(header)) + header.payload_bytes();
    std::string id(header.id_bytes, '\0');
    if (next > size || !read_exactly(fd_, id.data(), id.size(), end_ + static_cast<int64_t>(sizeof(header)))) break;
    offsets_[id] = end_;
    end_ = next;
  }
}

std::optional<TargetFeatures> FeatureStore::read(int64_t offset, const TrainConversation& conversation,
                                                 size_t width) const {
  RecordHeader header;
  if (!read_exactly(fd_, &header, sizeof(header), offset) || !plausible(header)) return std::nullopt;
  TargetFeatures out;
  out.positions = header.positions;
  out.first_prediction = header.first_prediction;
  const bool fits = out.positions == static_cast<int>(conversation.tokens.size()) - 1 &&
                    out.first_prediction == conversation.answers.front()[0] &&
                    header.hidden_values == static_cast<size_t>(out.positions) * width;
  if (!fits) return std::nullopt;
  std::string bytes(static_cast<size_t>(header.payload_bytes()), '\0');
  if (!read_exactly(fd_, bytes.data(), bytes.size(), offset + static_cast<int64_t>(sizeof(header))) ||
      checksum(bytes) != header.check) {
    return std::nullopt;
  }
  const auto predictions = static_cast<size_t>(out.positions - out.first_prediction);
  out.hidden.resize(header.hidden_values);
  out.tokens.resize(predictions * kTargetTokens);
  out.probabilities.resize(out.tokens.size());
  size_t at = header.id_bytes;
  take(bytes, &at, &out.hidden);
  take(bytes, &at, &out.tokens);
  take(bytes, &at, &out.probabilities);
  return out;
}

// A store that cannot grow only costs time.
void FeatureStore::append(const std::string& id, const TargetFeatures& features) {
  std::string payload = id;
  put(features.hidden, &payload);
  put(features.tokens, &payload);
  put(features.probabilities, &payload);
  const RecordHeader header = {kMagic,
                               static_cast<uint32_t>(id.size()),
                               features.positions,
                               features.first_prediction,
                               features.hidden.size(),
                               checksum(payload)};
  const auto bytes = static_cast<int64_t>(sizeof(header) + payload.size());
  if (fd_ < 0 || id.size() > kMaxId || end_ + bytes > max_bytes_) return;
  const std::string record(reinterpret_cast<const char*>(&header), sizeof(header));
  if (!write_exactly(fd_, record + payload, end_)) {
    log(LogLevel::kWarning, "features are no longer kept: the file cannot be written");
    max_bytes_ = 0;
    return;
  }
  offsets_[id] = end_;
  end_ += bytes;
}

Result<TargetFeatures> FeatureStore::get(Runner& runner, std::span<const int> layers,
                                         const TrainConversation& conversation) {
  const size_t width = static_cast<size_t>(runner.config().hidden) * layers.size();
  if (const auto at = offsets_.find(conversation.id); at != offsets_.end()) {
    if (std::optional<TargetFeatures> kept = read(at->second, conversation, width)) {
      ++hits_;
      return *std::move(kept);
    }
  }
  ++misses_;
  DSPARK_TRY(TargetFeatures fresh, compute_features(runner, layers, conversation));
  append(conversation.id, fresh);
  return fresh;
}

}  // namespace dspark
