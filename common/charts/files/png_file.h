// Drawings as pictures of points.
#pragma once

#include <filesystem>
#include <string>

namespace coldframe::html {

// Draws an SVG file of svg_file.h as a PNG file, four points for each of its pixels (300 to an inch
// at 16 cm of a drawing of 480 pixels), by the program `rsvg-convert` (Debian: librsvg2-bin).
// Returns why it could not; nothing when it is done.
std::string draw_png(const std::filesystem::path& svg, const std::filesystem::path& png);

}  // namespace coldframe::html
