// StreamDecoder: text from tokens as they come, never half a character. One per stream, one thread at a time.
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"

namespace dspark {

class StreamDecoder {
 public:
  struct Options {
    bool skip_special = true;
    bool at_text_start = false;  // the tokens begin a text, so that the space that encoding put in front is dropped
  };
  // `tokenizer` must outlive the decoder.
  StreamDecoder(const Tokenizer& tokenizer, Options options) : tokenizer_(tokenizer), options_(options) {}

  // What can be said now that `id` is here: valid UTF-8, maybe empty. Bytes that cannot become a character any more
  // are U+FFFD, one per maximal part. An id out of range adds nothing.
  std::string push(int32_t id);
  // What is left at the end of the stream: an incomplete character is U+FFFD.
  std::string flush();

 private:
  const Tokenizer& tokenizer_;
  Options options_;
  bool any_text_ = false;
  std::string pending_;  // up to 3 bytes of a character
};

}  // namespace dspark
