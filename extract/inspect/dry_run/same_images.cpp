#include "extract/inspect/dry_run/same_images.h"

#include <algorithm>
#include <map>
#include <set>
#include <system_error>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/files/file.h"
#include "common/files/fingerprint.h"
#include "common/text/text.h"
#include "extract/frames/input/source_digest.h"

namespace coldframe::extract::dry_run {
namespace {

using Exams = std::vector<std::size_t>;

// A file, and the exams that use it.
struct File {
  std::filesystem::path path;
  std::string name;
  std::set<std::size_t> exams;
};

bool overlap(const frames::ExamItem& a, const frames::ExamItem& b) {
  return (a.last < 0 || b.first <= a.last) && (b.last < 0 || a.first <= b.last);
}

class Search {
 public:
  Search(const frames::ExamList& input, const Survey& survey) : input_(input), survey_(survey) {}
  std::vector<SameImage> run();

 private:
  void note(std::set<std::size_t> exams, const std::string& where);
  void compare_uses();
  void compare_files();
  void compare_content(const std::vector<const File*>& files);
  void compare_pictures();

  const frames::ExamList& input_;
  const Survey& survey_;
  std::map<std::filesystem::path, File> files_;
  std::map<Exams, std::string> found_;
};

void Search::note(std::set<std::size_t> exams, const std::string& where) {
  if (exams.size() > 1) found_.try_emplace(Exams(exams.begin(), exams.end()), where);
}

// The same file named by several exams, with frames in common.
void Search::compare_uses() {
  std::map<std::filesystem::path, std::vector<std::pair<std::size_t, const frames::ExamItem*>>>
      uses;
  for (std::size_t exam = 0; exam < input_.exams.size(); ++exam) {
    for (const auto& item : input_.exams[exam].items) {
      if (item.path.empty()) continue;
      uses[item.path].emplace_back(exam, &item);
      File& file = files_[item.path];
      file.path = item.path;
      file.name = item.name;
      file.exams.insert(exam);
    }
  }
  for (const auto& [path, users] : uses) {
    std::set<std::size_t> exams;
    for (std::size_t i = 1; i < users.size(); ++i) {
      for (std::size_t j = 0; j < i && j < 64; ++j) {
        if (users[i].first == users[j].first || !overlap(*users[i].second, *users[j].second))
          continue;
        exams.insert({users[i].first, users[j].first});
      }
    }
    note(std::move(exams), files_[path].name);
  }
}

void Search::compare_files() {
  std::map<std::uintmax_t, std::vector<const File*>> by_size;
  for (const auto& [path, file] : files_) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    if (!error && size > 0) by_size[size].push_back(&file);
  }
  for (const auto& [size, files] : by_size)
    if (files.size() > 1) compare_content(files);
}

std::string head_digest(const std::filesystem::path& path) {
  const InputFile file(path);
  std::vector<std::byte> head(1 << 16);
  head.resize(file.read_some(0, head));
  return to_hex(xxh3_128(head));
}

std::string whole_digest(const std::filesystem::path& path) {
  frames::ExamSpec exam;
  exam.items.emplace_back().path = path;
  return frames::source_digest(exam);
}

// Files of one size: by their first 64 KiB, then as a whole.
void Search::compare_content(const std::vector<const File*>& files) {
  std::map<std::string, std::vector<const File*>> by_head, by_content;
  const auto sort_by = [](auto digest, const std::vector<const File*>& all, auto& groups) {
    for (const File* file : all) {
      if (stop_requested()) throw Interrupted("stopped; a dry run starts from the beginning");
      try {
        groups[digest(file->path)].push_back(file);
      } catch (const DataError&) {  // its exam says so
      }
    }
  };
  sort_by(head_digest, files, by_head);
  for (const auto& [digest, alike] : by_head)
    if (alike.size() > 1) sort_by(whole_digest, alike, by_content);
  for (const auto& [digest, equal] : by_content) {
    if (equal.size() < 2) continue;
    std::set<std::size_t> exams;
    for (const File* file : equal) exams.insert(file->exams.begin(), file->exams.end());
    note(std::move(exams), equal.front()->name);
  }
}

void Search::compare_pictures() {
  std::map<Digest, std::set<std::size_t>> exams;
  for (std::size_t exam = 0; exam < survey_.exams.size(); ++exam) {
    for (const Digest& picture : survey_.exams[exam].pictures) exams[picture].insert(exam);
  }
  for (auto& [picture, holders] : exams) note(std::move(holders), "the pixels of sampled frames");
}

std::vector<SameImage> Search::run() {
  compare_uses();
  compare_files();
  compare_pictures();
  std::vector<SameImage> result;
  for (const auto& [exams, where] : found_) {
    std::set<std::string> patients;
    for (const std::size_t exam : exams)
      if (!input_.exams[exam].patient.empty()) patients.insert(input_.exams[exam].patient);
    result.push_back({exams, patients.size() > 1, where});
  }
  return result;
}

}  // namespace

std::vector<SameImage> find_same_images(const frames::ExamList& input, const Survey& survey) {
  return Search(input, survey).run();
}

}  // namespace coldframe::extract::dry_run
