#include "extract/plan/resume/exam_stamp.h"

#include <bit>
#include <span>

#include "common/files/fingerprint.h"
#include "common/text/text.h"
#include "extract/frames/input/source_digest.h"
#include "extract/preprocess/steps.h"

namespace coldframe::extract {
namespace {

std::string digest_of(const std::string& text) {
  return to_hex(xxh3_128(std::as_bytes(std::span(text)))).substr(0, 16);
}

}  // namespace

std::string stamp_of_times(const frames::ExamSpec& exam) {
  std::string times;
  for (const auto& item : exam.items) {
    times += concat(std::bit_cast<std::uint64_t>(item.time_s), ';');
  }
  return digest_of(times);
}

std::string digest_of_names(const frames::ExamSpec& exam) {
  std::string names;
  for (const auto& item : exam.items) names += concat(item.name, '\n');
  return digest_of(names);
}

std::string names_part(const ExamStamp& stamp) {
  return stamp.files.substr(stamp.files.find('/') + 1);
}

ExamStamp stamp_of(const frames::ExamSpec& exam) {
  std::string ranges;
  for (const auto& item : exam.items) {
    ranges += concat(item.path.empty(), ':', item.first, '-', item.last, ';');
    if (item.crop) ranges += concat("crop ", preprocess::to_text(*item.crop), ';');
  }
  return {concat(frames::source_stamp(exam), '/', digest_of_names(exam)), digest_of(ranges),
          stamp_of_times(exam)};
}

std::string to_text(const ExamStamp& stamp) {
  return concat(stamp.files, '|', stamp.ranges, '|', stamp.times);
}

std::string exam_stamp(const frames::ExamSpec& exam) {
  return to_text(stamp_of(exam));
}

ExamStamp parse_stamp(const std::string& text) {
  const auto parts = split(text, '|');
  return parts.size() == 3 ? ExamStamp{parts[0], parts[1], parts[2]} : ExamStamp{};
}

}  // namespace coldframe::extract
