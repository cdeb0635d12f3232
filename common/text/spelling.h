// Spelling: words of options and files, suggestions for misspelt ones, and one spelling of a name.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace coldframe {

// Words that stand for values, as command lines and files spell them, read in both directions.

template <typename T>
using WordTable = std::vector<std::pair<const char*, T>>;  // in the order in which messages list it

template <typename T>
std::vector<std::string> words_in(const WordTable<T>& table) {
  std::vector<std::string> words;
  for (const auto& each : table) words.emplace_back(each.first);
  return words;
}

template <typename T>
std::optional<T> value_for(const WordTable<T>& table, std::string_view word) {
  for (const auto& each : table)
    if (word == each.first) return each.second;
  return std::nullopt;
}

// `value` is in the table.
template <typename T>
const char* word_for(const WordTable<T>& table, T value) {
  return std::ranges::find(table, value, &std::pair<const char*, T>::second)->first;
}

// What a message about an unknown word says of the known ones.

// "label, age; did you mean 'label'?" for "lable"; without the question where none is near, "none"
// where there are none.
std::string known_words(const std::vector<std::string>& known, const std::string& word);

// Values that people typed: those that differ in case, white space or the way in which Unicode
// writes a letter alone are one. This is the one rule for labels, patients, and the categories of
// any column.

// Bytes that are no UTF-8 are taken for ISO 8859-1.
std::string as_utf8(std::string_view text);

// The value without white space in Unicode's form NFKC_Casefold (case, composed or decomposed
// letters, compatible forms and invisible characters make no difference): equal for spellings of
// one word. White space between two digits stays a space ("P1 12" and "P11 2" are two), and so do
// zeros (007 and 7 are two codes).
std::string plain_spelling(std::string_view value);

bool spelt_alike(std::string_view a, std::string_view b);

// Likewise for an id; people and spreadsheets write one that is a whole number with other zeros, so
// that "0123", "123" and "123.0" are all "123".
std::string plain_id(std::string_view value);
bool same_id(std::string_view a, std::string_view b);

// What holds of ids that are equal as numbers and spelt apart, which are one person's where a
// spreadsheet wrote them, and two people's where two hospitals gave them.
enum class EqualNumbers { kAsk, kSame, kDifferent };
inline const WordTable<EqualNumbers> kEqualNumbers{{"ask", EqualNumbers::kAsk},
                                                   {"same", EqualNumbers::kSame},
                                                   {"different", EqualNumbers::kDifferent}};

// Two such ids among the values: their places; nothing where there are none.
std::optional<std::pair<std::size_t, std::size_t>> find_equal_numbers(
    const std::vector<std::string>& values);

// The place in `known` of the value, or else of the only one that is spelt alike.
std::optional<std::size_t> find_spelling(const std::vector<std::string>& known,
                                         const std::string& value);

// Gives values that are spelt alike the most frequent of their spellings, the first in natural
// order among equally frequent ones; with kSame also ids that are equal as numbers. Returns what
// was changed, "'Yes' and 'YES' as 'yes', 'No' as 'no' and 3 more"; "" where nothing was.
std::string unify_spelling(std::vector<std::string>& values,
                           EqualNumbers numbers = EqualNumbers::kDifferent);

// Gives values the spelling of the known ones, as find_spelling() finds them; others stay. Returns
// what was changed, likewise.
std::string unify_spelling(std::vector<std::string>& values, const std::vector<std::string>& known);

}  // namespace coldframe
