#include "common/files/exam_files.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <fstream>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxName = 60;
constexpr int kPlaceDigits = 6, kSlotDigits = 3;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool may_be_in_a_name(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' ||
         c == '_';
}

std::string padded(std::size_t number, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%0*zu", digits, number);
  return text;
}

bool is_exam_folder(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  return entry.is_directory() && name.size() > kPlaceDigits && name[kPlaceDigits] == '-' &&
         std::all_of(name.begin(), name.begin() + kPlaceDigits, is_digit);
}

}  // namespace

std::string exam_folder_name(std::size_t place, std::string_view exam) {
  std::string name(exam.substr(0, kMaxName));
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !may_be_in_a_name(c); }, '_');
  return padded(place, kPlaceDigits) + "-" + name;
}

std::string frame_file_name(std::size_t slot, std::string_view end) {
  return concat(padded(slot, kSlotDigits), end);
}

void write_exam_file(const fs::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  if (!file)
    throw SystemError(concat("cannot write '", path.string(), "'; check that the disk has room"));
}

void require_exam_files(const fs::path& folder, const std::vector<std::string>& extensions,
                        std::string_view what, std::string_view page) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const bool is_file = entry.is_regular_file() &&
                         std::ranges::count(extensions, entry.path().extension().string()) > 0 &&
                         entry.path().parent_path().parent_path() == folder;
    const bool is_page = entry.is_regular_file() && entry.path() == folder / page;
    if (is_file || is_page || is_exam_folder(entry)) continue;
    throw ConfigError(concat("--overwrite would remove '", entry.path().string(), "', which is no ",
                             what, "; move it away, or choose another name"));
  }
}

}  // namespace coldframe
