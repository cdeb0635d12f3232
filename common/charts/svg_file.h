// Drawings of html.h as files of their own, for a paper.
#pragma once

#include <string>

namespace coldframe::html {

// The SVG file of a drawing: on white, and without a page's variables and currentColor, which
// programs that edit figures may not know.
std::string svg_file(const std::string& drawing);

}  // namespace coldframe::html
