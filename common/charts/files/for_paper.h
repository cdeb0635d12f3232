// Drawings of html.h as files of their own, for a paper.
#pragma once

#include <filesystem>
#include <string>

namespace coldframe::html {

// The SVG file of a drawing: on white, and without a page's variables and currentColor, which
// programs that edit figures may not know.
std::string svg_file(const std::string& drawing);

// Draws an SVG file as a PNG file, four points for each of its pixels (300 to an inch at 16 cm of a
// drawing of 480 pixels), by the program `rsvg-convert` (Debian: librsvg2-bin). Returns why it
// could not; nothing when it is done.
std::string draw_png(const std::filesystem::path& svg, const std::filesystem::path& png);

}  // namespace coldframe::html
