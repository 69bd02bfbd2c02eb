// The digest that says which model it is: the same for the same weights, parameters and tokenizer, wherever they lie.
// Blocks of KV carry it (docs/architecture.md, block law). Any thread.
#pragma once

#include <string>

#include "base/report.h"
#include "base/result.h"
#include "base/sha256.h"
#include "model/tensor_source.h"

namespace dspark {

// Where digests of files are remembered.
struct DigestCache {
  std::string folder;  // "" for no cache
  // A younger file is not remembered: a change within the clock's grain would not show.
  int64_t settle_ns = 2'000'000'000;
};

// SHA-256 over every byte of source.identity_files(), as a tree: each file's 16 MiB chunks are hashed by `threads`
// threads, then the digests of a file's chunks, then those of the files, as tagged fields. File names and times do not
// enter. A GGUF file is identified whole, so that a change of its chat template changes the digest, too: too many
// digests cost a few cache misses, too few would give wrong tokens.
//
// Nothing is sampled: a full hash takes about 60 ms for 100 MB. For large models the digest of each file is remembered
// in the cache under its path, and is taken from there while device, inode, size, mtime and ctime are the same. Pages
// that were read are released again. Progress is in bytes of all files.
Result<Sha256Digest> model_digest(const TensorSource& source, const DigestCache& cache, int threads,
                                  const ReportProgress& progress);

}  // namespace dspark
