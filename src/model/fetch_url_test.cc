// Tests of fetch_url.h against tests/http_standin.py on 127.0.0.1.
#include "model/fetch_url.h"

#include <gmock/gmock.h>
#include <stdlib.h>  // NOLINT: setenv is POSIX

#include <filesystem>
#include <fstream>
#include <iterator>

#include "model/http_standin.h"

namespace dspark {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class FetchUrl : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("NO_PROXY", "*", 1);
    folder_ = fs::path(testing::TempDir()) / "dspark_fetch";
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "served");
    for (size_t i = 0; content_.size() < 300'000; ++i) content_ += fmt::format("line {}\n", i);
    std::ofstream(folder_ / "served/f.gguf") << content_;
    std::ofstream(folder_ / "served/empty") << "";
    server_.start((folder_ / "served").string(), (folder_ / "log").string());
    target_ = (folder_ / "f.gguf").string();
  }

  Status fetch(const std::string& path, const std::optional<Sha256Digest>& expected = {}) {
    return fetch_url(server_.url(path), target_, expected, {});
  }
  std::string log() const { return read_file((folder_ / "log").string()); }

  // Fetches from a path until `bytes` are there, then cancels.
  void stop_after(const std::string& path, int64_t bytes) {
    const auto stopped = fetch_url(server_.url(path), target_, {},
                                   [&](std::string_view, int64_t done, int64_t) { return done < bytes; });
    ASSERT_FALSE(stopped.ok());
    ASSERT_EQ(stopped.error().code, ErrorCode::kCancelled);
    ASSERT_TRUE(fs::exists(target_ + ".part"));
    ASSERT_FALSE(fs::exists(target_));
  }

  void expect_whole() const {
    EXPECT_EQ(read_file(target_), content_);
    EXPECT_FALSE(fs::exists(target_ + ".part"));
    EXPECT_FALSE(fs::exists(target_ + ".part.validator"));
  }

  fs::path folder_;
  std::string content_;
  std::string target_;
  HttpStandin server_;
};

TEST_F(FetchUrl, FetchesWithAndWithoutRanges) {
  for (const char* path :
       {"/range/f.gguf", "/plain/f.gguf", "/dated/f.gguf", "/redirect/f.gguf", "/range/f.gguf?x=1"}) {
    SCOPED_TRACE(path);
    fs::remove(target_);
    const auto status = fetch(path, sha256(content_));
    ASSERT_TRUE(status.ok()) << status.error().message;
    expect_whole();
  }
}

TEST_F(FetchUrl, ReportsBytesOfTheFile) {
  int64_t last_done = 0;
  int64_t last_total = 0;
  ASSERT_TRUE(fetch_url(server_.url("/range/f.gguf"), target_, {}, [&](std::string_view, int64_t done, int64_t total) {
                last_done = done;
                last_total = total;
                return true;
              }).ok());
  EXPECT_EQ(last_done, static_cast<int64_t>(content_.size()));
  EXPECT_EQ(last_total, static_cast<int64_t>(content_.size()));
}

TEST_F(FetchUrl, AnEmptyFileIsAFile) {
  content_.clear();
  ASSERT_TRUE(fetch("/range/empty").ok());
  expect_whole();
}

TEST_F(FetchUrl, ABrokenConnectionContinuesByItself) {
  const auto status = fetch("/cut/1000/f.gguf");
  ASSERT_TRUE(status.ok()) << status.error().message;
  expect_whole();
  EXPECT_EQ(log(), "/cut/1000/f.gguf -\n/cut/1000/f.gguf bytes=1000-\n");
}

TEST_F(FetchUrl, AChangedFileStartsAgain) {
  ASSERT_TRUE(fetch("/changed/1000/f.gguf").ok());
  for (char& c : content_) c = static_cast<char>(std::toupper(c));
  expect_whole();
}

TEST_F(FetchUrl, ACancelledDownloadContinuesNextTime) {
  for (const char* path : {"/range/f.gguf", "/dated/f.gguf"}) {
    SCOPED_TRACE(path);
    fs::remove(target_);
    stop_after(path, 1);
    fs::resize_file(target_ + ".part", 70'000);
    ASSERT_TRUE(fetch(path).ok());
    expect_whole();
    EXPECT_THAT(log(), HasSubstr(fmt::format("{} bytes=70000-\n", path)));
  }
}

TEST_F(FetchUrl, WithoutRangesItStartsAgain) {
  stop_after("/plain/f.gguf", 1);
  fs::resize_file(target_ + ".part", 70'000);
  ASSERT_TRUE(fetch("/plain/f.gguf").ok());
  expect_whole();
}

TEST_F(FetchUrl, APartThatIsWholeOrTooLong) {
  stop_after("/range/f.gguf", 1);
  std::ofstream(target_ + ".part") << content_;
  ASSERT_TRUE(fetch("/range/f.gguf").ok());
  expect_whole();
  fs::remove(target_);
  stop_after("/range/f.gguf", 1);
  std::ofstream(target_ + ".part") << content_ << "more";
  ASSERT_TRUE(fetch("/range/f.gguf").ok());
  expect_whole();
}

TEST_F(FetchUrl, AWrongDigestRemovesTheDownload) {
  const auto status = fetch("/range/f.gguf", sha256("other"));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(status.error().message,
              HasSubstr(fmt::format("SHA-256 is {}, expected {}", to_hex(sha256(content_)), to_hex(sha256("other")))));
  EXPECT_FALSE(fs::exists(target_));
  EXPECT_FALSE(fs::exists(target_ + ".part"));
}

TEST_F(FetchUrl, ErrorsSayWhatTheServerSaid) {
  const auto missing = fetch("/status/404");
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("the server answered 404, expected 200; check the URL"));
  EXPECT_EQ(log(), "/status/404 -\n");
  EXPECT_THAT(fetch("/status/503").error().message, HasSubstr("answered 503"));
  EXPECT_FALSE(fetch_url("ftp://127.0.0.1/f", target_, {}, {}).ok());
  EXPECT_FALSE(fetch_url("file:///etc/hostname", target_, {}, {}).ok());
  EXPECT_FALSE(fs::exists(target_));
}

TEST(UrlForMessages, HidesSecrets) {
  EXPECT_EQ(url_for_messages("https://user:token@host/a/b.gguf?key=1#sha256=2"), "https://host/a/b.gguf");
  EXPECT_EQ(url_for_messages("http://host/a@b"), "http://host/a@b");
  EXPECT_EQ(url_for_messages("plain"), "plain");
}

}  // namespace
}  // namespace dspark
