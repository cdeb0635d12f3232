// A file that names exams: a manifest, or a list of ids.
#pragma once

#include <filesystem>
#include <string>
#include <unordered_set>
#include <vector>

#include "cache/format/exam.h"
#include "cache/store/reader.h"
#include "common/files/json.h"

namespace coldframe::cache::tool {

struct ListedExam {
  std::string id;
  std::vector<std::filesystem::path> files;  // each once, in order of appearance; a list has none
};

struct ExamListFile {
  std::vector<ListedExam> exams;  // each once, in order of appearance
  bool has_files = false;         // it has a column `path`
};

// A CSV with the column `exam` (and `path`, relative to it, as `extract --input` takes), or ids
// alone, one a line. DataError: neither.
ExamListFile read_exam_list(const std::filesystem::path& path);

// --where: which exams a verb is about.

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

// What several verbs show of one exam.

// Adds what a cache stores of an exam itself, as the schema names and orders it, except what `json`
// has already, what belongs to its sources, and the columns of the input.
void add_stored(const ExamInfo& exam, Json& json);

// Seconds from the first to the last frame whose time is known; NaN with fewer than two of them.
double time_span(const ExamInfo& exam);

// Seconds between neighbouring frames whose times are known.
std::vector<double> intervals(const ExamInfo& exam);

// Examinations of one patient lie days or years apart, frames of a clip milliseconds.
struct TimeUnit {
  const char *name, *sign;  // "days", " d"
  double seconds = 1;
};
TimeUnit time_unit(double typical_seconds);
// Converts times to the unit of their median, and returns the unit. NaN: unknown.
TimeUnit to_own_unit(std::vector<double>& seconds);

}  // namespace coldframe::cache::tool
