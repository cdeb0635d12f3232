// The exams as training and prediction read them: of one cache or of several as one, frames of
// several streams merged by instant, earlier visits joined to each exam.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train_temporal/data/sequences/joined_exams.h"
#include "train_temporal/data/sequences/merged_streams.h"
#include "train_temporal/data/sequences/stacked_caches.h"

namespace coldframe::temporal {

class SequenceReader {
 public:
  using VisitStored = cache::CacheReader::VisitStored;

  // Errors as CacheReader's and stack_caches()'s. Of several caches there are neither thumbnails
  // nor a cut.
  explicit SequenceReader(const std::filesystem::path& path,
                          cache::Detail detail = cache::Detail::kAll);
  explicit SequenceReader(std::span<const NamedCache> caches,
                          cache::Detail detail = cache::Detail::kAll);

  const cache::Recipe& recipe() const {
    return stacked_ ? stacked_->recipe : caches_.front().recipe();
  }
  std::int64_t dimension() const;  // D, or merged_width()
  DType storage() const { return caches_.front().storage(); }
  const std::vector<std::string>& views() const { return caches_.front().views(); }
  const std::vector<cache::ExamInfo>& exams() const { return joined_ ? joined_->exams : alone(); }
  const std::vector<cache::Failure>& failures() const {
    return stacked_ ? stacked_->failures : caches_.front().failures();
  }
  std::vector<std::string> column_names() const { return cache::column_names(exams()); }

  // From now on the frames that an exam has of several streams at an instant are one
  // (merged_streams.h): exams(), dimension() and features. The cut of such frames cannot be read.
  // Comes before join_exams().
  void merge_streams(const std::string& column, std::vector<std::string> names = {});
  const std::vector<std::string>& streams() const;      // empty: frames are as they are stored
  const std::vector<std::string>& cache_names() const;  // empty: of one
  // DataError, which names both, where caches contradict each other in a column of exams.
  void require_agreed(const std::string& column) const;

  // The first exam in which frames of one instant have different values in this frame column; "":
  // none.
  std::string disputed_in(const std::string& column) const;
  // After merge_streams().
  StreamMatches stream_matches() const { return count_matches(stored_exams(), *merged_); }
  // True where what is read as this exam has a frame of streams()[stream].
  bool has_stream(std::size_t exam, std::size_t stream) const;

  // From now on every exam is read as one with those before it (joined_exams.h): exams(), features,
  // cut and thumbnails. clean_checksums() remain those of the exam itself.
  void join_exams(std::vector<std::vector<std::size_t>> parts, std::span<const double> begin_s);
  // The exams that are read as this one, in the order of their frames; the last is itself.
  std::vector<std::size_t> parts_of(std::size_t exam) const;
  // Frames that are there in an exam by itself, without those that are joined to it.
  std::size_t own_frames(std::size_t exam) const { return present_frames(alone()[exam]); }

  // The checksum of the view "clean", of each cache that the exam's own frames come from.
  std::vector<std::uint64_t> clean_checksums(std::size_t exam) const;
  // Tells what is read as this exam from anything else: revision and digest of its source, and of
  // exams that are joined or merged, these of each part, its checksums, and the instant and stream
  // of every frame.
  std::vector<std::string> provenance(std::size_t exam) const;

  // These do what CacheReader's functions of the same names do.
  void scan_stored(const std::string& view, std::span<const std::size_t> exams,
                   const VisitStored& body) const;
  std::optional<cache::Cut> cut() const;
  void scan_cut(std::size_t view, std::span<const std::size_t> exams,
                const VisitStored& body) const;
  std::vector<std::string> thumbnails(std::size_t exam) const;

 private:
  const std::vector<cache::ExamInfo>& alone() const {
    return merged_ ? merged_->exams : stored_exams();
  }
  const std::vector<cache::ExamInfo>& stored_exams() const {
    return stacked_ ? stacked_->exams : caches_.front().exams();
  }
  const std::vector<std::uint64_t>& checksums(std::size_t exam) const {
    return stacked_ ? stacked_->checksums[exam] : caches_.front().checksums(exam);
  }
  // parts_of(), without a copy; may view `exam` itself.
  std::span<const std::size_t> parts(const std::size_t& exam) const {
    return joined_ ? std::span<const std::size_t>(joined_->parts[exam]) : std::span(&exam, 1);
  }
  std::span<const std::size_t> parts(std::size_t&& exam) const = delete;
  // Hands over exam by exam what `scan` hands over part by part.
  template <typename Scan>
  void scan_parts(std::span<const std::size_t> exams, const Scan& scan,
                  const VisitStored& body) const;
  // The rows of a part as they are stored, behind `rows` as they are read.
  void append_rows(std::size_t part, std::span<const std::byte> stored,
                   std::vector<std::byte>& rows) const;

  std::vector<cache::CacheReader> caches_;
  std::optional<StackedCaches> stacked_;  // of several caches
  std::optional<MergedStreams> merged_;
  std::optional<JoinedExams> joined_;  // of what is merged
};

}  // namespace coldframe::temporal
