#include "extract/frames/dicom/exam_id.h"

#include <algorithm>

#include "common/files/fingerprint.h"
#include "common/text/text.h"

namespace coldframe::frames::dicom {
namespace {

constexpr std::size_t kLongestPart = 16;  // of a code string (PS3.5 table 6.2-1)

// A part that is fit for an id; "" for one that somebody filled with something else.
std::string plain(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
  };
  const bool usable =
      !text.empty() && text.size() <= kLongestPart && std::all_of(text.begin(), text.end(), fits);
  return usable ? concat(text, "-") : "";
}

}  // namespace

std::string exam_id(std::string_view modality, std::string_view series_number, std::string_view uid,
                    std::size_t digits) {
  const std::string kind = plain(modality);
  return concat(kind.empty() ? "dicom-" : kind, plain(series_number),
                sha256_hex(uid).substr(0, digits));
}

std::string study_id(std::string_view uid, std::size_t digits) {
  return concat("study-", sha256_hex(uid).substr(0, digits));
}

}  // namespace coldframe::frames::dicom
