// See tokenizer.h.
#include "text/tokenizer.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>
#include <unordered_map>
#include <utility>

#include "text/added_tokens.h"
#include "text/normalize.h"
#include "text/piece_model.h"
#include "text/pretokenize.h"
#include "text/vocabulary.h"

namespace dspark {
namespace {

// Symbols count bytes in 32 bits; longer pieces are cut, wherever that is.
constexpr size_t kMaxPieceBytes = size_t{1} << 30;

bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace

struct Tokenizer::Impl {
  // A stretch of text that is encoded by itself, or one added token.
  struct Part {
    std::string_view text;
    int32_t id = -1;
    bool at_text_start = false;
    std::vector<int32_t> ids;
  };

  static Status check_ids(const TokenizerSpec& spec);
  void collect_parts(std::string_view text, const EncodeOptions& options, std::vector<Part>& parts,
                     std::deque<std::string>& storage) const;
  void append_parts(std::string_view text, bool at_text_start, size_t max_bytes, std::vector<Part>& parts) const;
  void encode_part(Part& part) const;

  std::unique_ptr<const Vocabulary> vocabulary;
  std::unique_ptr<const PieceModel> model;
  Normalizer normalizer;
  Pretokenizer pretokenizer;
  AddedTokens raw_added;         // looked for in the text as given
  AddedTokens normalized_added;  // looked for in the normalised text
  std::unordered_map<std::string, int32_t> special_ids;
  std::vector<int32_t> end_of_generation;  // sorted
  int32_t bos = -1, eos = -1, eot = -1, pad = -1;
  bool add_bos = false, add_eos = false, strip_leading_space = false;
};

Status Tokenizer::Impl::check_ids(const TokenizerSpec& spec) {
  const auto size = static_cast<int64_t>(spec.tokens.size());
  auto check = [&](std::string_view what, int32_t id) -> Status {
    if (id >= -1 && id < size) return Ok{};
    return make_error(ErrorCode::kCorrupt, "the {} token has id {}, expected 0 to {}", what, id, size - 1);
  };
  DSPARK_RETURN_IF_ERROR(check("begin-of-text", spec.bos));
  DSPARK_RETURN_IF_ERROR(check("end-of-text", spec.eos));
  DSPARK_RETURN_IF_ERROR(check("end-of-turn", spec.eot));
  DSPARK_RETURN_IF_ERROR(check("unknown", spec.unknown));
  DSPARK_RETURN_IF_ERROR(check("padding", spec.pad));
  for (const int32_t id : spec.end_of_generation) DSPARK_RETURN_IF_ERROR(check("end-of-generation", id));
  return Ok{};
}

Result<Tokenizer> Tokenizer::create(TokenizerSpec spec) {
  auto impl = std::make_unique<Impl>();
  DSPARK_TRY(impl->vocabulary, Vocabulary::create(spec));
  DSPARK_RETURN_IF_ERROR(Impl::check_ids(spec));
  DSPARK_TRY(impl->model, create_piece_model(spec, *impl->vocabulary));
  DSPARK_TRY(impl->normalizer, Normalizer::create(std::move(spec.normalizer)));
  DSPARK_TRY(impl->pretokenizer, Pretokenizer::create(std::move(spec.pretokenizer)));
  DSPARK_TRY(impl->raw_added, AddedTokens::create(spec, /*normalized=*/false, impl->normalizer));
  DSPARK_TRY(impl->normalized_added, AddedTokens::create(spec, /*normalized=*/true, impl->normalizer));
  for (const AddedToken& token : spec.added_tokens) impl->special_ids.emplace(token.content, token.id);
  impl->end_of_generation = std::move(spec.end_of_generation);
  for (const int32_t id : {spec.eos, spec.eot}) impl->end_of_generation.push_back(id);
  std::erase(impl->end_of_generation, -1);
  std::sort(impl->end_of_generation.begin(), impl->end_of_generation.end());
  impl->bos = spec.bos;
  impl->eos = spec.eos;
  impl->eot = spec.eot;
  impl->pad = spec.pad;
  impl->add_bos = spec.add_bos && spec.bos >= 0;
  impl->add_eos = spec.add_eos && spec.eos >= 0;
  impl->strip_leading_space = spec.strip_leading_space;
  return Tokenizer(std::move(impl));
}

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<Impl::Part> parts;
  std::deque<std::string> storage;  // of normalised text
  impl_->collect_parts(text, options, parts, storage);

  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < parts.size();) impl_->encode_part(parts[i]);
  };
  const auto wanted = static_cast<size_t>(std::max(options.threads, 1));
  const size_t useful = text.size() / std::max<size_t>(options.min_part_bytes, 1) + 1;
  {
    std::vector<std::jthread> helpers;
    for (size_t i = 1; i < std::min({wanted, useful, parts.size()}); ++i) helpers.emplace_back(work);
    work();
  }

  std::vector<int32_t> ids;
  size_t count = 2;
  for (const Impl::Part& part : parts) count += part.ids.size();
  ids.reserve(count);
  if (options.add_special && impl_->add_bos) ids.push_back(impl_->bos);
  for (const Impl::Part& part : parts) ids.insert(ids.end(), part.ids.begin(), part.ids.end());
  if (options.add_special && impl_->add_eos) ids.push_back(impl_->eos);
  return ids;
}

void Tokenizer::Impl::collect_parts(std::string_view text, const EncodeOptions& options, std::vector<Part>& parts,
                                    std::deque<std::string>& storage) const {
  const size_t max_bytes = options.threads > 1 ? std::max<size_t>(options.min_part_bytes, 1) : std::string_view::npos;
  std::vector<AddedTokens::Segment> outer, inner;
  raw_added.split(text, options.parse_special, outer);
  for (const AddedTokens::Segment& segment : outer) {
    if (segment.id >= 0) {
      parts.push_back({segment.text, segment.id, false, {segment.id}});
      continue;
    }
    const bool at_text_start = segment.text.data() == text.data();
    std::string_view normalized = segment.text;
    if (!normalizer.empty()) normalized = normalizer.run(segment.text, storage.emplace_back());
    inner.clear();
    normalized_added.split(normalized, options.parse_special, inner);
    for (const AddedTokens::Segment& piece : inner) {
      if (piece.id >= 0) {
        parts.push_back({piece.text, piece.id, false, {piece.id}});
      } else {
        append_parts(piece.text, at_text_start && piece.text.data() == normalized.data(), max_bytes, parts);
      }
    }
  }
}

// Cuts `text` after at least `max_bytes`, where that changes no id.
void Tokenizer::Impl::append_parts(std::string_view text, bool at_text_start, size_t max_bytes,
                                   std::vector<Part>& parts) const {
  const bool by_pretokenizer = pretokenizer.ends_words_before_space();
  const bool by_model = pretokenizer.empty();
  size_t begin = 0;
  while ((by_pretokenizer || by_model) && text.size() - begin > max_bytes) {
    size_t space = text.find(' ', begin + max_bytes);
    while (space != std::string_view::npos &&
           !(is_ascii_letter(text[space - 1]) && (by_pretokenizer || model->can_cut_before_space(text, space)))) {
      space = text.find(' ', space + 1);
    }
    if (space == std::string_view::npos) break;
    parts.push_back({text.substr(begin, space - begin), -1, at_text_start && begin == 0, {}});
    begin = space;
  }
  parts.push_back({text.substr(begin), -1, at_text_start && begin == 0, {}});
}

void Tokenizer::Impl::encode_part(Part& part) const {
  if (part.id >= 0) return;
  constexpr size_t kBytesPerTokenGuess = 3;
  part.ids.reserve(part.text.size() / kBytesPerTokenGuess + 1);
  PieceModel::Scratch scratch;
  SplitRegex::Scratch regex_scratch;
  pretokenizer.run(part.text, part.at_text_start, regex_scratch, [&](std::string_view piece) {
    while (!piece.empty()) {
      const std::string_view head = piece.substr(0, kMaxPieceBytes);
      model->encode(head, scratch, part.ids);
      piece.remove_prefix(head.size());
    }
  });
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string text;
  for (const int32_t id : ids) {
    if (id < 0 || id >= size() || (skip_special && is_special(id))) continue;
    text += piece(id);
  }
  if (impl_->strip_leading_space && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

std::string_view Tokenizer::piece(int32_t id) const { return impl_->vocabulary->piece(id); }
TokenKind Tokenizer::kind(int32_t id) const { return impl_->vocabulary->kind(id); }
bool Tokenizer::is_special(int32_t id) const {
  return kind(id) == TokenKind::kControl || kind(id) == TokenKind::kUnknown;
}
bool Tokenizer::is_end_of_generation(int32_t id) const {
  return std::binary_search(impl_->end_of_generation.begin(), impl_->end_of_generation.end(), id);
}
bool Tokenizer::strips_leading_space() const { return impl_->strip_leading_space; }
int32_t Tokenizer::size() const { return static_cast<int32_t>(impl_->vocabulary->size()); }
int32_t Tokenizer::bos() const { return impl_->bos; }
int32_t Tokenizer::eos() const { return impl_->eos; }
int32_t Tokenizer::eot() const { return impl_->eot; }
int32_t Tokenizer::unknown() const { return impl_->vocabulary->unknown(); }
int32_t Tokenizer::pad() const { return impl_->pad; }
bool Tokenizer::adds_bos() const { return impl_->add_bos; }
bool Tokenizer::adds_eos() const { return impl_->add_eos; }
int32_t Tokenizer::find_special(std::string_view text) const {
  const auto it = impl_->special_ids.find(std::string(text));
  return it == impl_->special_ids.end() ? -1 : it->second;
}

}  // namespace dspark
