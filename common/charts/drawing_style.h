// How drawings look, on a page and as files of their own: one table of colours and one of rules,
// which both are written from.
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
