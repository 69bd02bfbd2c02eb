// The task bucket of a request: code, json, math, chat or other. Named by the caller or guessed from the words of the
// prompt; it labels metrics and calibration and never changes an answer. Pure, any thread.
#pragma once

#include <string_view>

namespace dspark {

// The bucket that a caller's name stands for: a bucket itself or one of our prompt sets; "other" for any other name.
std::string_view bucket_of_name(std::string_view name);

// A guess from the newest user text; `turns`: of the user, so far.
std::string_view bucket_of_text(std::string_view text, int turns);

}  // namespace dspark
