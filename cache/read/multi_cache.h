// One cache, or several that are read as one: an exam has the frames that the first has of it, and
// behind them those of the next. Internal to cache/; CacheReader is its public face.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cache/read/reader.h"
#include "cache/read/shard_set.h"

namespace coldframe::cache {

class MultiCache {
 public:
  // CacheError: as ShardSet's, caches whose rows cannot lie beside each other. DataError: an exam
  // that is of two patients.
  MultiCache(std::span<const NamedCache> caches, Detail detail);

  bool several() const { return caches_.size() > 1; }
  const ShardHeader& header() const { return several() ? header_ : one().header(); }
  const std::vector<ExamInfo>& exams() const { return several() ? exams_ : one().exams(); }
  const std::vector<Failure>& failures() const { return several() ? failures_ : one().failures(); }
  const std::vector<std::uint64_t>& checksums(std::size_t exam) const {
    return several() ? checksums_[exam] : one().checksums(exam);
  }
  std::vector<std::uint64_t> clean_checksums(std::size_t exam) const;
  const std::vector<std::string>& names() const { return names_; }  // empty: one cache
  std::size_t find(const std::string& id) const;
  // The only cache, or the first.
  const ShardSet& one() const { return caches_.front(); }
  // DataError when two caches have different values of the column for an exam.
  void require_agreed(const std::string& column) const;

  // Thread-safe.
  void read_rows(std::size_t exam, std::size_t array, std::span<std::byte> rows) const;
  void scan(std::size_t array, std::span<const std::size_t> exams,
            const CacheReader::VisitStored& body) const;

  std::uint64_t bytes_on_disk() const;
  std::uint64_t bytes_read() const;
  std::size_t files() const;

 private:
  struct Part {
    std::size_t cache, exam;
  };
  void require_same_rows() const;
  void join_headers();
  void stack();
  // `before`: the exam's parts that it has taken up.
  void take_patient(const Part& part, std::span<const Part> before, ExamInfo& exam) const;
  void take_columns(const Part& part, std::span<const Part> before, ExamInfo& exam);
  void take_frames(const Part& part, ExamInfo& exam) const;
  void place_in_time(ExamInfo& exam, std::span<const Part> parts) const;
  std::vector<std::uint64_t> checksums_of(std::span<const Part> parts) const;
  std::string name_of(const Part& part) const;  // in messages
  const ExamInfo& info(const Part& part) const { return caches_[part.cache].exams()[part.exam]; }

  std::vector<ShardSet> caches_;
  std::vector<std::string> names_;  // the rest, too, is of several caches
  std::vector<std::string> paths_;
  ShardHeader header_;
  std::vector<ExamInfo> exams_;
  std::vector<std::vector<Part>> parts_;  // [exam]
  std::vector<std::vector<std::uint64_t>> checksums_;
  std::vector<Failure> failures_;
  std::map<std::string, std::string> contradictions_;  // of a column: what is said
};

}  // namespace coldframe::cache
