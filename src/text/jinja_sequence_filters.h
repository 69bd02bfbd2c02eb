// The filters on sequences: a part of the table in jinja_filters.h.
#pragma once

#include <span>

#include "text/jinja_runtime.h"

namespace dspark::jinja {

std::span<const Native> sequence_filters();

}  // namespace dspark::jinja
