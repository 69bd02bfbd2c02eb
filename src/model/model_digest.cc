// The tree hash and its cache behind model_digest.h.
#include "model/model_digest.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "base/cache_dir.h"

namespace dspark {
namespace {

constexpr size_t kChunkBytes = size_t{16} << 20;

// Everything the cached digest depends on; also the first part of the cache file's only line.
std::string cache_key(const FileIdentity& id) {
  return fmt::format("dspark-digest-1 {} {} {} {} {} ", id.device, id.inode, id.bytes, id.modified_ns, id.changed_ns);
}

std::string cache_path(const MappedFile& file, const DigestCache& cache) {
  std::error_code error;
  const auto absolute = std::filesystem::canonical(file.path(), error);
  return fmt::format("{}/{}", cache.folder, to_hex(sha256(error ? file.path() : absolute.string())));
}

std::optional<Sha256Digest> cached_digest(const MappedFile& file, const DigestCache& cache) {
  std::string line;
  std::ifstream in(cache_path(file, cache));
  std::getline(in, line);
  const std::string key = cache_key(file.identity());
  if (!line.starts_with(key)) return std::nullopt;
  return sha256_from_hex(std::string_view(line).substr(key.size()));
}

void remember_digest(const MappedFile& file, const Sha256Digest& digest, const DigestCache& cache) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t now_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  if (now_ns - std::max(file.identity().modified_ns, file.identity().changed_ns) < cache.settle_ns) return;
  // The cache only saves time: a folder that cannot be written is no reason to fail.
  if (!create_folders(cache.folder).ok()) return;
  (void)replace_file(cache_path(file, cache), cache_key(file.identity()) + to_hex(digest) + "\n").ok();
}

// Hashes one file by chunks; nothing if progress said stop. `done` counts bytes over all files.
std::optional<Sha256Digest> hash_file(const MappedFile& file, int threads, int64_t done, int64_t total,
                                      const ReportProgress& progress) {
  const auto bytes = file.bytes();
  const size_t chunks = (bytes.size() + kChunkBytes - 1) / kChunkBytes;
  std::vector<Sha256Digest> digests(chunks);
  std::atomic<size_t> next = 0;
  std::atomic<size_t> finished = 0;
  std::atomic<bool> stop = false;
  const auto work = [&](bool reports) {
    for (size_t i = next++; i < chunks && !stop; i = next++) {
      const auto chunk = bytes.subspan(i * kChunkBytes, std::min(kChunkBytes, bytes.size() - i * kChunkBytes));
      digests[i] = sha256(chunk);
      file.release(chunk);
      const size_t complete = ++finished;
      if (!reports) continue;
      const auto hashed = static_cast<int64_t>(std::min(complete * kChunkBytes, bytes.size()));
      if (!report(progress, "identifying", done + hashed, total)) stop = true;
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (size_t i = 1; i < std::min(static_cast<size_t>(threads), chunks); ++i) helpers.emplace_back(work, false);
    work(true);
  }
  if (stop) return std::nullopt;
  Sha256 tree;
  tree.add_field("bytes", bytes.size());
  for (const Sha256Digest& digest : digests) tree.add_field("chunk", digest);
  return tree.finish();
}

}  // namespace

Result<Sha256Digest> model_digest(const TensorSource& source, const DigestCache& cache, int threads,
                                  const ReportProgress& progress) {
  DSPARK_CHECK(threads >= 1, "{} threads", threads);
  const auto files = source.identity_files();
  int64_t total = 0;
  for (const MappedFile* file : files) total += static_cast<int64_t>(file->bytes().size());
  Sha256 model;
  model.add_field("dspark model", uint64_t{1});
  int64_t done = 0;
  for (const MappedFile* file : files) {
    auto digest = cache.folder.empty() ? std::nullopt : cached_digest(*file, cache);
    if (!digest) {
      digest = hash_file(*file, threads, done, total, progress);
      if (!digest) return make_error(ErrorCode::kCancelled, "{}: stopped while identifying the model", source.path());
      if (!cache.folder.empty() && !file->path().empty()) remember_digest(*file, *digest, cache);
    }
    model.add_field("file", *digest);
    done += static_cast<int64_t>(file->bytes().size());
  }
  return model.finish();
}

}  // namespace dspark
