// Labels as their column spells them.
#pragma once

#include <string>
#include <vector>

#include "common/text/word_table.h"

namespace coldframe::temporal {

// What words mean that say in some tables that there is no label, and name a class in others:
// None, null, -, ?, unknown.
enum class UnclearLabels { kAsk, kMissing, kClasses };
inline const WordTable<UnclearLabels> kUnclearLabels{{"ask", UnclearLabels::kAsk},
                                                     {"missing", UnclearLabels::kMissing},
                                                     {"classes", UnclearLabels::kClasses}};

// Empties the labels of a column that say that there is none, and returns a sentence on them; "" if
// there are none. `classes`: words that are known to name a class. ConfigError where it is unclear.
std::string empty_missing(std::vector<std::string>& values, const std::string& column,
                          UnclearLabels unclear, const std::vector<std::string>& classes = {});

// Strips spaces; "" stands for what says that there is no label: nan, na, n/a.
std::string cleaned(const std::string& value);

// A number as "1" or "0.5", however spelt ("1.0" is how pandas writes a column with gaps).
std::string one_spelling(const std::string& value);

// All cleaned; in a column of numbers each of these in one spelling, in any other each word
// (spelling.h).
struct SpeltValues {
  std::vector<std::string> values;
  bool numeric = false;  // every label is a finite number
  std::string changes;   // as unify_spelling() tells them
};
SpeltValues one_spelling(std::vector<std::string> values);

// Tells of values that were taken as one: "column 'sex': values that differ …"
std::string tell_changes(const std::string& column, const std::string& changes);

// The different labels among cleaned values, in natural order.
std::vector<std::string> distinct(const std::vector<std::string>& values);

// 'a', 'b', 'c' and 4 more
std::string some_of(const std::vector<std::string>& names);

}  // namespace coldframe::temporal
