// AccessLog: one line of JSON for each request that has ended, appended to a file by a thread of its own. write() from
// any thread.
#pragma once

#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "server/request_record.h"

namespace dspark {

class AccessLog {
 public:
  // `with_text`: prompts and answers are written, too. Without, all that is known of a prompt are salted hashes of its
  // blocks; the salt is drawn at the start and kept nowhere, so that nobody can try prompts against a log.
  static Result<std::unique_ptr<AccessLog>> open(const std::string& path, bool with_text);
  ~AccessLog();  // writes what waits

  bool with_text() const;
  void write(RequestRecord record);

 private:
  struct Impl;
  explicit AccessLog(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The line. Hashes of a prompt's whole blocks of 128 tokens, chained, 16 digits each; equal prefixes of one tenant have
// equal hashes under one salt.
nlohmann::ordered_json log_line(const RequestRecord& record, std::string_view salt, std::string_view salt_id);

}  // namespace dspark
