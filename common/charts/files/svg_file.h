// Drawings of html.h as files of their own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace coldframe::html {

// Every drawing in a part of a page as an SVG file: on white, and without the variables of a page's
// style, which programs that edit figures do not know.
std::vector<std::string> svg_files(std::string_view page);

}  // namespace coldframe::html
