// Finds exams whose ids and sources no longer go together as they do in the cache: labels that are
// joined by id would go astray.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cache/read/reader.h"
#include "extract/frames/input/exam_list.h"

namespace coldframe::extract {

struct IdChanges {
  // A cached exam whose source the input has under another id.
  struct Move {
    std::size_t cached;  // index into CacheReader::exams()
    const frames::ExamSpec* exam;
  };
  std::vector<Move> moves;
  // A cached exam whose id now names another source or patient.
  struct Replacement {
    std::size_t cached;
    std::string reason;
  };
  std::vector<Replacement> replaced;
};

// `extracted`: exams of the input that the cache has not, or not as they are now. `absent`: cached
// ones that the input does not name. A source is known by the content of its files, whatever they
// are called; files are read only when a cached exam of their number and size is without its
// source. So is one whose lost frames were mended since, by its files' names or the content of the
// others. An exam whose files merely changed is no finding, nor is a patient who was unknown.
IdChanges find_id_changes(const std::vector<const frames::ExamSpec*>& extracted,
                          const std::vector<std::size_t>& absent, const cache::CacheReader& cached);

// Those of `absent` whose source is cached under the id of an exam in `present` as well: what a
// killed job left while it renamed.
std::vector<std::size_t> left_by_renaming(const std::vector<std::size_t>& absent,
                                          const std::vector<std::size_t>& present,
                                          const cache::CacheReader& cached);

// One line for each change, the first 20 of them, and what to do.
std::string describe(const IdChanges& changes, bool rename, bool replace,
                     const cache::CacheReader& cached);

// True if the files of the exam have nothing in common with the cached one's by name.
bool has_other_files(const frames::ExamSpec& exam, const cache::ExamInfo& cached);
bool has_other_patient(const frames::ExamSpec& exam, const cache::ExamInfo& cached);

}  // namespace coldframe::extract
