#include "extract/inspect/dry_run/file_names.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "common/text/text.h"

namespace coldframe::extract::dry_run {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kBetween = "_-. ";
constexpr std::array<std::string_view, 7> kMaskWords{"mask",  "masks", "seg",       "segmentation",
                                                     "label", "gt",    "annotation"};

// The path without suffix, ".nii.gz" included.
std::string stem_of(const std::string& name) {
  std::filesystem::path path = name;
  path.replace_extension();
  if (lower(path.extension().string()) == ".nii") path.replace_extension();
  return path.generic_string();
}

// "x_mask" -> "x"; "" for what is called otherwise.
std::string image_of_mask(const std::string& stem) {
  const auto at = stem.find_last_of(kBetween);
  if (at == std::string::npos || at == 0) return "";
  const std::string word = lower(std::string_view(stem).substr(at + 1));
  const bool mask = std::find(kMaskWords.begin(), kMaskWords.end(), word) != kMaskWords.end();
  return mask ? stem.substr(0, at) : "";
}

// "pat1_2" -> {"pat1", "2"}: what stands before the frame's number. Empty where it has no number
// itself.
std::pair<std::string, std::string> part_of_frame(const std::string& stem) {
  const auto number = stem.find_last_not_of(kDigits) + 1;
  if (number == 0 || number == stem.size()) return {};
  const auto end = stem.find_last_not_of(kBetween, number - 1);
  if (end == std::string::npos || end + 1 == number) return {};
  const std::string before = std::filesystem::path(stem.substr(0, end + 1)).filename().string();
  if (before.find_first_of(kDigits) == std::string::npos) return {};
  return {before, stem.substr(number)};
}

std::string several_series(const frames::ExamSpec& exam) {
  std::map<std::string, std::set<std::string>> parts_of_number, numbers_of_part;
  for (const auto& item : exam.items) {
    if (item.path.empty() || item.first != 0 || item.last >= 0) continue;
    const auto [part, number] = part_of_frame(stem_of(item.name));
    if (part.empty()) continue;
    parts_of_number[number].insert(part);
    numbers_of_part[part].insert(number);
  }
  // "1_of_2" and "2_of_2" have one number behind each part, and are of one series.
  const bool counted = std::any_of(numbers_of_part.begin(), numbers_of_part.end(),
                                   [](const auto& each) { return each.second.size() > 1; });
  if (!counted) return "";
  for (const auto& [number, parts] : parts_of_number)
    if (parts.size() > 1)
      return concat("frame ", number, " of '", *parts.begin(), "' and of '",
                    *std::next(parts.begin()), "'",
                    parts.size() > 2 ? concat(" and ", parts.size() - 2, " more") : "");
  return "";
}

}  // namespace

std::vector<Finding> look_at_file_names(const frames::ExamList& input) {
  Finding several{"several_series",
                  "files of several patients or series in one exam, by their names",
                  "give each a folder or rows of its own, or part them by --exam-from",
                  {}};
  Finding masks{"masks",
                "masks beside images, by their names",
                "masks are taken for frames or exams: move them out of the input",
                {}};
  std::set<std::string> stems;
  for (const auto& exam : input.exams)
    for (const auto& item : exam.items)
      if (!item.path.empty()) stems.insert(stem_of(item.name));
  for (const auto& exam : input.exams) {
    if (!exam.id_from_header) {
      if (std::string detail = several_series(exam); !detail.empty())
        several.cases.push_back({{exam.id}, std::move(detail)});
    }
    const auto mask = std::find_if(exam.items.begin(), exam.items.end(), [&](const auto& item) {
      return !item.path.empty() && stems.contains(image_of_mask(stem_of(item.name)));
    });
    if (mask != exam.items.end()) masks.cases.push_back({{exam.id}, concat("'", mask->name, "'")});
  }
  return {std::move(several), std::move(masks)};
}

}  // namespace coldframe::extract::dry_run
