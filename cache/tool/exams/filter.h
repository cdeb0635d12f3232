// --where: which exams a verb is about.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "cache/read/reader.h"

namespace coldframe::cache::tool {

// The option's help, the same for every verb that has it.
inline constexpr const char* kWhereHelp =
    "only exams for which this holds: COLUMN=VALUE, !=, <, <=, >, >= (may be repeated; columns of "
    "the input, and exam, patient, frames, missing, span, kind)";

// Indices of the exams for which all conditions hold, in the order of the cache. "label=covid"
// holds for equal texts and for equal numbers; "label=" for exams without a value; < and > compare
// numbers and hold for nothing else. A column of the input goes before a word of our own.
// ConfigError: not a condition, a column that is not there, a bound that is not a number.
std::vector<std::size_t> select_exams(const CacheReader& cache,
                                      const std::vector<std::string>& conditions);

// The same exams by their ids, of a cache that is opened for it.
std::unordered_set<std::string> select_ids(const std::string& path,
                                           const std::vector<std::string>& conditions);

// Chooses at most `most` of `count` things, evenly spaced: number i is floor(i · count / most).
std::vector<std::size_t> evenly_spaced(std::size_t count, std::size_t most);

}  // namespace coldframe::cache::tool
