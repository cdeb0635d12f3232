// What came from a file must not steer the terminal, nor turn the order of what is read there.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace coldframe {

enum class Lines { kOne, kMany };

// Control characters, marks of direction, separators of lines and bytes that are not UTF-8 become
// escapes: "\u001b", "\u202e", "\xe9". In a string of JSON, \u escapes are the same text. Tabs
// and line feeds stay where there are many lines.
std::string printable(std::string_view text, Lines lines = Lines::kOne);

// The name of a file as it is stored and shown: bytes that are not UTF-8 as %E9.
std::string utf8_name(std::string_view name);

// Bytes of the UTF-8 sequence that starts at text[at]; 0 if it is malformed.
std::size_t utf8_sequence(std::string_view text, std::size_t at);
// Bytes of whole code points at the beginning of `text`: all of it but a last one that is cut off.
std::size_t whole_code_points(std::string_view text);

}  // namespace coldframe
