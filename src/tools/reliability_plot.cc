// See reliability_plot.h.
#include "tools/reliability_plot.h"

#include <fmt/format.h>

#include <algorithm>

namespace dspark {
namespace {

constexpr int kPanel = 150, kGap = 46, kTop = 56, kBins = 10;

struct Bin {
  double foretold = 0.0, came = 0.0;
  int64_t count = 0;
};

std::string panel(const std::vector<ChanceOutcome>& outcomes, size_t place, int x0) {
  std::vector<Bin> bins(kBins);
  for (const ChanceOutcome& outcome : outcomes) {
    Bin& bin = bins[static_cast<size_t>(std::clamp(static_cast<int>(outcome.chance * kBins), 0, kBins - 1))];
    bin.foretold += outcome.chance;
    bin.came += outcome.happened ? 1.0 : 0.0;
    ++bin.count;
  }
  std::string out = fmt::format(
      "<g transform=\"translate({} {})\"><rect width=\"{}\" height=\"{}\" class=\"frame\"/>"
      "<path d=\"M0 {}L{} 0\" class=\"ideal\"/><text x=\"{}\" y=\"-8\" class=\"name\">token {}: error {:.1f} %</text>",
      x0, kTop, kPanel, kPanel, kPanel, kPanel, 0, place + 1, 100.0 * expected_calibration_error(outcomes, kBins));
  for (const Bin& bin : bins) {
    if (bin.count == 0) continue;
    const double share = static_cast<double>(bin.count) / static_cast<double>(outcomes.size());
    out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\"/>",
                       bin.foretold / static_cast<double>(bin.count) * kPanel,
                       (1.0 - bin.came / static_cast<double>(bin.count)) * kPanel, 2.0 + 8.0 * share);
  }
  out += fmt::format("<text x=\"0\" y=\"{}\">0</text><text x=\"{}\" y=\"{}\">1</text></g>\n", kPanel + 14, kPanel - 6,
                     kPanel + 14);
  return out;
}

}  // namespace

std::string reliability_svg(const DraftQuality& quality, std::string_view title) {
  const auto panels = static_cast<int>(quality.positions.size());
  const int width = kGap + std::max(1, panels) * (kPanel + kGap);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n"
      "<style>text{{font:11px sans-serif;fill:#555}}.name{{font-size:12px}}.title{{font-size:14px}}"
      ".frame{{fill:none;stroke:#999}}.ideal{{stroke:#bbb;stroke-dasharray:4 3}}circle{{fill:#2a7de1;fill-opacity:.7}}"
      "</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
      "<text x=\"{2}\" y=\"22\" class=\"title\">{3}: survival foretold (across) and accepted (up); larger: more drafts"
      "</text>\n",
      width, kTop + kPanel + 30, kGap, title);
  for (size_t k = 0; k < quality.positions.size(); ++k) {
    out += panel(quality.positions[k].survival, k, kGap + static_cast<int>(k) * (kPanel + kGap));
  }
  return out + "</svg>\n";
}

}  // namespace dspark
