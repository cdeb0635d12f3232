// Values that people typed: those that differ in case or white space alone are one. This is the one
// rule for labels, patients, and the categories of any column.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace coldframe {

// The value without case and white space, of ASCII and Latin-1: equal for spellings of one word.
// White space between two digits stays a space ("P1 12" and "P11 2" are two), and so do zeros (007
// and 7 are two codes).
std::string plain_spelling(std::string_view value);

// The place in `known` of the value, or else of the only one that is spelt alike.
std::optional<std::size_t> find_spelling(const std::vector<std::string>& known,
                                         const std::string& value);

// Gives values that are spelt alike the most frequent of their spellings, the first in natural
// order among equally frequent ones. Returns what was changed, "'Yes' and 'YES' as 'yes', 'No' as
// 'no' and 3 more"; "" where nothing was.
std::string unify_spelling(std::vector<std::string>& values);

// Gives values the spelling of the known ones, as find_spelling() finds them; others stay. Returns
// what was changed, likewise.
std::string unify_spelling(std::vector<std::string>& values, const std::vector<std::string>& known);

}  // namespace coldframe
