// "Did you mean": the known name nearest to a mistyped one, for error messages. Pure, any thread.
#pragma once

#include <span>
#include <string_view>

namespace dspark {

// The element of `known` with the fewest edits (insert, delete, replace, swap of neighbours) from `name`; empty if
// none is near enough to be a likely typing error (at most a third of the letters, and at least one edit allowed).
std::string_view closest_name(std::string_view name, std::span<const std::string_view> known);

}  // namespace dspark
