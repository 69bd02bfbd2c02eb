// Reliability diagrams as SVG: what was foretold against what came, a panel for each place in the draft. Pure.
#pragma once

#include <span>
#include <string>

#include "train/draft_eval.h"

namespace dspark {

std::string reliability_svg(const DraftQuality& quality, std::string_view title);

}  // namespace dspark
