// The look of drawings. One table of colours and one of rules give the CSS of pages and that of
// files.
#pragma once

#include <string>

namespace coldframe::html {

// CSS of a page: the colours as variables (--paper, --card, --ink, --soft, --rule, --on, --c0 …
// --c7), for a light and a dark screen, and the rules of drawings, in which they stand.
std::string page_style_of_drawings();

// CSS of a file: the light colours themselves, for programs that know neither variables nor
// currentColor.
std::string file_style_of_drawings();

}  // namespace coldframe::html
