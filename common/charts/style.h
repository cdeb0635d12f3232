// The look of pages and drawings, and what a page can do (page.css, page.js), compiled in.
#pragma once

#include <string_view>

namespace coldframe::html {

extern const std::string_view kStyle, kScript;

}  // namespace coldframe::html
