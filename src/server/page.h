// The page at `/`: a chat, live charts and the configuration, as files inside of this program. Constant data.
#pragma once

#include <string_view>

namespace dspark {

struct PageFile {
  std::string_view path;
  std::string_view content_type;
  std::string_view text;
};

// Null for another path.
const PageFile* find_page_file(std::string_view path);

}  // namespace dspark
