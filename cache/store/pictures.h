// The thumbnails that go into a report.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/format/exam.h"
#include "common/charts/html.h"

namespace coldframe::cache {

// Default for the bytes of JPEG in a page.
inline constexpr std::uint64_t kMaxPictureBytes = 4u << 20;
// A page shows at most this many frames of an exam, so that a long exam leaves room for others.
inline constexpr std::size_t kMaxFramesShown = 32;

// Midpoints of `most` equal parts of the indices [0, all); all indices if there are no more.
std::vector<std::size_t> middles_of_parts(std::size_t all, std::size_t most);

// Hands out the thumbnails of exam after exam, until they would be too many for a page.
class Pictures {
 public:
  // `cache`: CacheReader, or what reads several as one. `most`: bytes of JPEG. 0, or a cache
  // without thumbnails: there are no pictures.
  template <typename Reader>
  Pictures(const Reader& cache, std::uint64_t most)
      : exam_([&cache](std::size_t exam) -> const ExamInfo& { return cache.exams()[exam]; }),
        thumbnails_([&cache](std::size_t exam) { return cache.thumbnails(exam); }),
        most_(cache.recipe().has_thumbnails() ? most : 0) {}

  // One for each of `frames`; empty when the exam has none, or they do not fit any more.
  std::vector<html::Picture> of(std::size_t exam, const std::vector<std::size_t>& frames);
  // The frames that are there; of many, evenly spaced ones.
  std::vector<html::Picture> of(std::size_t exam);

  bool wanted() const { return most_ > 0; }
  // After several exams that did not fit, more are not tried.
  bool is_full() const { return left_out_ >= kTried; }
  // A paragraph on what is in the page. `first`: whose pictures, where not all fit.
  std::string note(std::string_view first) const;

 private:
  static constexpr std::size_t kTried = 8;

  std::function<const ExamInfo&(std::size_t exam)> exam_;
  std::function<std::vector<std::string>(std::size_t exam)> thumbnails_;
  std::uint64_t most_, bytes_ = 0;
  std::size_t left_out_ = 0;
};

}  // namespace coldframe::cache
