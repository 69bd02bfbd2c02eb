// See tool_parser.h.
#include "server/tool_parser.h"

#include <fmt/format.h>

#include <optional>

#include "server/call_scanner.h"
#include "server/reasoning.h"

namespace dspark {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

// What the formats share: bytes that wait, the number of the next call, and space that counts only if text follows.
class BufferedParser : public ToolParser {
 public:
  explicit BufferedParser(std::string id_prefix) : id_prefix_(std::move(id_prefix)) {}

  ToolParts push(std::string_view piece) override {
    held_ += piece;
    ToolParts out;
    while (advance(&out)) {
    }
    return out;
  }

 protected:
  virtual bool advance(ToolParts* out) = 0;  // one step over held_; false when it must wait for more

  std::string next_id() { return fmt::format("{}{}", id_prefix_, calls_); }

  // Content; space next to a call, or before everything, is left out.
  void say(std::string_view text, ToolParts* out) {
    if (at_edge_) {
      const size_t begin = text.find_first_not_of(kSpace);
      edge_ += text.substr(0, begin);
      if (begin == std::string_view::npos) return;
      text.remove_prefix(begin);
      out->content += std::exchange(edge_, {});
      at_edge_ = false;
    }
    out->content += text;
  }
  void edge() {
    at_edge_ = true;
    edge_.clear();
  }

  std::string held_;
  int calls_ = 0;

 private:
  std::string id_prefix_;
  bool at_edge_ = true;
  std::string edge_;
};

class HermesParser final : public BufferedParser {
 public:
  using BufferedParser::BufferedParser;

  ToolParts finish() override {
    ToolParts out;
    if (scanner_ && !scanner_->started()) say(std::string(kOpen) + scanner_->raw(), &out);
    if (!closing_) say(held_, &out);
    held_.clear();
    return out;
  }

 private:
  static constexpr std::string_view kOpen = "<tool_call>";
  static constexpr std::string_view kClose = "</tool_call>";

  bool advance(ToolParts* out) override {
    if (scanner_) return scan(out);
    if (closing_) return close();
    const size_t found = held_.find(kOpen);
    if (found == std::string::npos) {
      const size_t keep = partial_suffix(held_, kOpen);
      say(std::string_view(held_).substr(0, held_.size() - keep), out);
      held_.erase(0, held_.size() - keep);
      return false;
    }
    say(std::string_view(held_).substr(0, found), out);
    held_.erase(0, found + kOpen.size());
    scanner_.emplace(calls_, next_id(), true);
    return true;
  }

  bool scan(ToolParts* out) {
    held_.erase(0, scanner_->push(held_, out));
    if (scanner_->state() == CallScanner::State::kMore) return false;
    if (scanner_->state() == CallScanner::State::kDone) {
      ++calls_;
      closing_ = true;
      edge();
    } else {
      say(std::string(kOpen) + scanner_->raw(), out);
    }
    scanner_.reset();
    return true;
  }

  // Behind a call: the closing tag, or what stands there instead.
  bool close() {
    held_.erase(0, std::min(held_.find_first_not_of(kSpace), held_.size()));
    if (held_.size() < kClose.size() && kClose.starts_with(held_)) return false;
    if (held_.starts_with(kClose)) held_.erase(0, kClose.size());
    closing_ = false;
    return true;
  }

  std::optional<CallScanner> scanner_;
  bool closing_ = false;
};

class Llama3Parser final : public BufferedParser {
 public:
  using BufferedParser::BufferedParser;

  ToolParts finish() override {
    ToolParts out;
    if (scanner_ && !scanner_->started()) say(before_ + scanner_->raw(), &out);
    if (calls_ == 0 || content_) say(held_, &out);
    held_.clear();
    return out;
  }

 private:
  static constexpr std::string_view kTag = "<|python_tag|>";

  bool advance(ToolParts* out) override {
    if (scanner_) return scan(out);
    if (content_) {
      say(std::exchange(held_, {}), out);
      return false;
    }
    const std::string_view skipped = calls_ == 0 ? kSpace : " \t\r\n;,";
    const size_t begin = held_.find_first_not_of(skipped);
    if (begin == std::string::npos) return false;
    const std::string_view text = std::string_view(held_).substr(begin);
    if (text.size() < kTag.size() && kTag.starts_with(text)) return false;
    if (text.starts_with(kTag)) {
      held_.erase(0, begin + kTag.size());
    } else if (text[0] == '{') {
      before_ = held_.substr(0, begin);
      held_.erase(0, begin);
      scanner_.emplace(calls_, next_id(), false);
    } else {
      content_ = true;
    }
    return true;
  }

  bool scan(ToolParts* out) {
    held_.erase(0, scanner_->push(held_, out));
    if (scanner_->state() == CallScanner::State::kMore) return false;
    if (scanner_->state() == CallScanner::State::kDone) {
      ++calls_;
      edge();
    } else {
      content_ = true;
      say(before_ + scanner_->raw(), out);
    }
    scanner_.reset();
    return true;
  }

  std::optional<CallScanner> scanner_;
  std::string before_;
  bool content_ = false;
};

class DeepSeekParser final : public BufferedParser {
 public:
  using BufferedParser::BufferedParser;

  ToolParts finish() override {
    ToolParts out;
    if (state_ == State::kText) say(held_, &out);
    if (state_ == State::kHeader || state_ == State::kName) say(std::string(kCall) + header_ + held_, &out);
    if (state_ == State::kArguments) give(trimmed(held_), &out);
    held_.clear();
    return out;
  }

 private:
  static constexpr std::string_view kCalls = "<｜tool▁calls▁begin｜>";
  static constexpr std::string_view kCallsEnd = "<｜tool▁calls▁end｜>";
  static constexpr std::string_view kCall = "<｜tool▁call▁begin｜>";
  static constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
  static constexpr std::string_view kCallEnd = "<｜tool▁call▁end｜>";
  static constexpr std::string_view kFence = "```json";
  enum class State { kText, kBetween, kHeader, kName, kFence, kArguments };

  bool advance(ToolParts* out) override {
    switch (state_) {
      case State::kText:
        return text(out);
      case State::kBetween:
        return between();
      case State::kHeader:
        if (!take_until(kSeparator, &header_)) return false;
        // V3 and R1 write what kind of tool it is first, and the name on the same line behind.
        if (header_ == "function") {
          state_ = State::kName;
        } else {
          start(header_, State::kArguments, out);
        }
        return true;
      case State::kName: {
        std::string name;
        if (!take_until("\n", &name)) return false;
        start(name, State::kFence, out);
        return true;
      }
      case State::kFence: {
        held_.erase(0, std::min(held_.find_first_not_of(kSpace), held_.size()));
        if (held_.size() < kFence.size() && kFence.starts_with(held_)) return false;
        if (held_.starts_with(kFence)) held_.erase(0, kFence.size());
        state_ = State::kArguments;
        return true;
      }
      case State::kArguments:
        return arguments(out);
    }
    return false;
  }

  bool text(ToolParts* out) {
    const size_t found = held_.find(kCalls);
    const size_t end = found == std::string::npos ? held_.size() - partial_suffix(held_, kCalls) : found;
    say(std::string_view(held_).substr(0, end), out);
    held_.erase(0, end);
    if (found == std::string::npos) return false;
    held_.erase(0, kCalls.size());
    state_ = State::kBetween;
    edge();
    return true;
  }

  bool between() {
    held_.erase(0, std::min(held_.find_first_not_of(kSpace), held_.size()));
    for (const auto& [marker, next] : {std::pair(kCall, State::kHeader), std::pair(kCallsEnd, State::kText)}) {
      if (held_.size() < marker.size() && marker.starts_with(held_)) return false;
      if (!held_.starts_with(marker)) continue;
      held_.erase(0, marker.size());
      header_.clear();
      state_ = next;
      return true;
    }
    state_ = State::kText;  // neither: the model has left the format
    return true;
  }

  bool arguments(ToolParts* out) {
    const size_t found = held_.find(kCallEnd);
    const bool ends = found != std::string::npos;
    size_t end = ends ? found : held_.size() - partial_suffix(held_, kCallEnd);
    while (end > 0 && (kSpace.find(held_[end - 1]) != std::string_view::npos || held_[end - 1] == '`')) --end;
    give(std::string_view(held_).substr(0, end), out);
    held_.erase(0, ends ? found + kCallEnd.size() : end);
    if (!ends) return false;
    give(given_ ? "" : "{}", out);
    state_ = State::kBetween;
    return true;
  }

  // A call begins, if there is a name to call.
  void start(std::string_view header, State next, ToolParts* out) {
    std::string name = trimmed(header);
    if (name.empty()) {
      say(std::string(kCall) + header_ + std::string(kSeparator), out);
      state_ = State::kText;
      return;
    }
    out->calls.push_back({.index = calls_, .id = next_id(), .name = std::move(name)});
    ++calls_;
    given_ = false;
    state_ = next;
  }

  void give(std::string_view piece, ToolParts* out) {
    if (!given_) piece.remove_prefix(std::min(piece.find_first_not_of(kSpace), piece.size()));
    if (piece.empty()) return;
    given_ = true;
    if (!out->calls.empty() && out->calls.back().index == calls_ - 1) {
      out->calls.back().arguments += piece;
    } else {
      out->calls.push_back({.index = calls_ - 1, .arguments = std::string(piece)});
    }
  }

  bool take_until(std::string_view marker, std::string* out) {
    const size_t found = held_.find(marker);
    if (found == std::string::npos) return false;
    *out = held_.substr(0, found);
    held_.erase(0, found + marker.size());
    return true;
  }

  static std::string trimmed(std::string_view text) {
    const size_t begin = text.find_first_not_of(kSpace);
    if (begin == std::string_view::npos) return {};
    const size_t end = text.find_last_not_of(" \t\r\n`");
    return std::string(end == std::string_view::npos || end < begin ? "" : text.substr(begin, end + 1 - begin));
  }

  State state_ = State::kText;
  std::string header_;
  bool given_ = false;  // a piece of the arguments has gone out
};

}  // namespace

Result<ToolFormat> tool_format(std::string_view name, const Tokenizer& tokenizer) {
  if (name == "none") return ToolFormat::kNone;
  if (name == "hermes") return ToolFormat::kHermes;
  if (name == "llama3") return ToolFormat::kLlama3;
  if (name == "deepseek") return ToolFormat::kDeepSeek;
  if (name != "auto") {
    return make_error(ErrorCode::kInvalidArgument, "tool format '{}', expected auto, none, hermes, llama3 or deepseek",
                      name);
  }
  if (tokenizer.find_special("<tool_call>") >= 0) return ToolFormat::kHermes;
  if (tokenizer.find_special("<|python_tag|>") >= 0) return ToolFormat::kLlama3;
  if (tokenizer.find_special("<｜tool▁calls▁begin｜>") >= 0) return ToolFormat::kDeepSeek;
  return ToolFormat::kHermes;
}

std::unique_ptr<ToolParser> make_tool_parser(ToolFormat format, std::string id_prefix) {
  switch (format) {
    case ToolFormat::kHermes:
      return std::make_unique<HermesParser>(std::move(id_prefix));
    case ToolFormat::kLlama3:
      return std::make_unique<Llama3Parser>(std::move(id_prefix));
    case ToolFormat::kDeepSeek:
      return std::make_unique<DeepSeekParser>(std::move(id_prefix));
    case ToolFormat::kNone:
      break;
  }
  return nullptr;
}

}  // namespace dspark
