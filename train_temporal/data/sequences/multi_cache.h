// One cache, or several that are read as one: an exam has the frames that the first has of it, and
// behind them those of the next.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cache/read/reader.h"

namespace coldframe::temporal {

// A cache that holds one stream of the exams.
struct NamedCache {
  std::string name;  // of the stream; empty: the only cache
  std::filesystem::path path;
};

// The frame column of exams of several caches that names each frame's own, and the key of a recipe
// whose caches differ, under which each has its own by name.
inline constexpr const char* kStreamColumn = "stream";
inline constexpr const char* kRecipesOfStreams = "streams";

// Matched by the exams' ids: an exam has the frames of each cache behind one another, its start is
// the earliest, and frames' times count from there where all caches know when it began, else from
// each cache's own first frame. Patient and columns are those of the first cache that has a value.
class MultiCache {
 public:
  using VisitStored = cache::CacheReader::VisitStored;

  // CacheError: as CacheReader's; features of different width, storage or views. DataError: an exam
  // that is of two patients.
  MultiCache(std::span<const NamedCache> caches, cache::Detail detail);

  bool several() const { return caches_.size() > 1; }
  // The only cache, or the first.
  const cache::CacheReader& first() const { return caches_.front(); }
  const cache::Recipe& recipe() const { return several() ? recipe_ : first().recipe(); }
  const std::vector<cache::ExamInfo>& exams() const { return several() ? exams_ : first().exams(); }
  const std::vector<cache::Failure>& failures() const {
    return several() ? failures_ : first().failures();
  }
  const std::vector<std::uint64_t>& checksums(std::size_t exam) const {
    return several() ? checksums_[exam] : first().checksums(exam);
  }
  std::vector<std::uint64_t> clean_checksums(std::size_t exam) const;
  const std::vector<std::string>& names() const { return names_; }  // empty: one cache
  // DataError when two caches have different values of the column for an exam.
  void require_agreed(const std::string& column) const;

  // Does what CacheReader::scan_stored() does.
  void scan_stored(const std::string& view, std::span<const std::size_t> exams,
                   const VisitStored& body) const;

 private:
  struct Part {
    std::size_t cache, exam;
  };
  void require_same_rows() const;
  void join_recipes();
  void stack_exams();
  // `before`: the exam's parts that it has taken up.
  void take_patient(const Part& part, std::span<const Part> before, cache::ExamInfo& exam) const;
  void take_columns(const Part& part, std::span<const Part> before, cache::ExamInfo& exam);
  void take_frames(const Part& part, cache::ExamInfo& exam) const;
  void place_in_time(cache::ExamInfo& exam, std::span<const Part> parts) const;
  std::vector<std::uint64_t> checksums_of(std::span<const Part> parts) const;
  std::string name_of(const Part& part) const;  // in messages
  const cache::ExamInfo& info(const Part& part) const {
    return caches_[part.cache].exams()[part.exam];
  }

  std::vector<cache::CacheReader> caches_;
  std::vector<std::string> names_;  // the rest, too, is of several caches
  std::vector<std::string> paths_;
  cache::Recipe recipe_;
  std::vector<cache::ExamInfo> exams_;
  std::vector<std::vector<Part>> parts_;  // [exam]
  std::vector<std::vector<std::uint64_t>> checksums_;
  std::vector<cache::Failure> failures_;
  std::map<std::string, std::string> contradictions_;  // of a column: what is said
};

}  // namespace coldframe::temporal
