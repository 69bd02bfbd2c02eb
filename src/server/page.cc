// See page.h. The assembler puts the files of page/ into the program; CMake tells it where they are.
#include "server/page.h"

#include <algorithm>
#include <array>

#define DSPARK_EMBED(name, file)                      \
  asm(".pushsection .rodata\n"                        \
      ".global dspark_" #name "_begin, dspark_" #name \
      "_end\n"                                        \
      "dspark_" #name "_begin: .incbin \"" file       \
      "\"\n"                                          \
      "dspark_" #name                                 \
      "_end:\n"                                       \
      ".popsection\n");                               \
  extern "C" const char dspark_##name##_begin[], dspark_##name##_end[]

DSPARK_EMBED(page_html, "page/index.html");
DSPARK_EMBED(page_css, "page/page.css");
DSPARK_EMBED(page_js, "page/page.js");

namespace dspark {

const PageFile* find_page_file(std::string_view path) {
  static const std::array kFiles = {
      PageFile{"/", "text/html; charset=utf-8", {dspark_page_html_begin, dspark_page_html_end}},
      PageFile{"/page/page.css", "text/css; charset=utf-8", {dspark_page_css_begin, dspark_page_css_end}},
      PageFile{"/page/page.js", "text/javascript; charset=utf-8", {dspark_page_js_begin, dspark_page_js_end}}};
  const auto* found = std::ranges::find(kFiles, path, &PageFile::path);
  return found == kFiles.end() ? nullptr : found;
}

}  // namespace dspark
