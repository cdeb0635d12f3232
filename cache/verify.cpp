#include "cache/verify.h"

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_map>

#include "cache/collection.h"
#include "common/error.h"
#include "common/text.h"

namespace coldframe::cache {
namespace {

constexpr std::size_t kMostOrdinalsNamed = 20;

// Where an exam of one revision was seen, and what tells its content from another's.
struct Seen {
  std::string file;
  StoredExam exam;
};

class Verifier {
 public:
  explicit Verifier(const Location& location) : location_(location) {}
  VerifyReport run();

 private:
  void check_file(const std::filesystem::path& path);
  void check_exam(ShardFile& file, std::size_t exam);
  void check_ordinals();
  void find(const std::string& file, const std::string& exam, const std::string& problem) {
    const std::string prefix = file + ": ";  // errors name the file themselves
    report_.findings.push_back(
        {file, exam, problem.starts_with(prefix) ? problem.substr(prefix.size()) : problem});
  }

  Location location_;
  VerifyReport report_;
  std::unique_ptr<ShardHeader> first_;  // of the first file with exams that could be read
  std::unordered_map<std::string, std::map<std::uint32_t, Seen>> seen_;
  std::vector<Failure> failures_;
};

bool same_content(const StoredExam& a, const StoredExam& b) {
  return a.checksums == b.checksums && a.info.patient == b.info.patient &&
         a.info.ordinal == b.info.ordinal && a.info.columns == b.info.columns &&
         a.info.present == b.info.present;
}

void Verifier::check_exam(ShardFile& file, std::size_t number) {
  const StoredExam& exam = file.contents().exams[number];
  const ShardHeader& header = file.contents().header;
  std::vector<std::byte> rows(exam.info.frames() * header.row_bytes());
  for (std::size_t view = 0; view < header.views.size(); ++view) {
    try {
      file.read_rows(number, view, rows);
    } catch (const CacheError& error) {
      find(file.path().string(), exam.info.id, error.what());
    }
  }
  const auto [entry, is_new] =
      seen_[exam.info.id].emplace(exam.info.revision, Seen{file.path().string(), exam});
  if (!is_new)
    find(file.path().string(), exam.info.id,
         concat("revision ", exam.info.revision, " is stored twice, ",
                same_content(entry->second.exam, exam) ? "with equal" : "with DIFFERENT",
                " content; the other is in ", entry->second.file));
}

void Verifier::check_file(const std::filesystem::path& path) {
  std::unique_ptr<ShardFile> file;
  try {
    file = std::make_unique<ShardFile>(path);
    const ShardContents& contents = file->contents();
    if (!first_ && !contents.exams.empty()) first_ = std::make_unique<ShardHeader>(contents.header);
    if (first_) {
      ShardHeader header = contents.header;
      if (contents.exams.empty()) header.views = first_->views;
      require_same_cache(*first_, header, path.string());
    }
  } catch (const CacheError& error) {
    find(path.string(), "", error.what());
  }
  if (!file) return;
  ++report_.files;
  const ShardContents& contents = file->contents();
  report_.exams += contents.exams.size();
  for (std::size_t i = 0; i < contents.exams.size(); ++i) {
    report_.frames += contents.exams[i].info.frames();
    check_exam(*file, i);
  }
  failures_.insert(failures_.end(), contents.failures.begin(), contents.failures.end());
}

// Every position of the input has one exam, or a failure that says why not.
void Verifier::check_ordinals() {
  std::map<std::uint64_t, std::string> taken;
  for (const auto& [id, revisions] : seen_) {
    const std::uint64_t ordinal = revisions.rbegin()->second.exam.info.ordinal;
    const auto [entry, is_new] = taken.emplace(ordinal, id);
    if (!is_new)
      find("", id,
           concat("has the place ", ordinal, " of the input, and so has exam '", entry->second,
                  "'"));
  }
  for (const Failure& failure : failures_) taken.emplace(failure.ordinal, failure.exam);
  std::vector<std::string> missing;
  std::uint64_t expected = 0, count = 0;
  for (const auto& [ordinal, id] : taken) {
    if (ordinal > expected && missing.size() < kMostOrdinalsNamed)
      missing.push_back(ordinal - expected == 1 ? concat(expected)
                                                : concat(expected, "–", ordinal - 1));
    count += ordinal - expected;
    expected = ordinal + 1;
  }
  if (count > 0)
    find("", "",
         concat("the input's places ", join(missing, ", "), " have neither exam nor failure (",
                count, " missing); run the same `coldframe extract` again"));
}

VerifyReport Verifier::run() {
  const std::vector<std::filesystem::path> files = location_.files();
  if (files.empty()) const Collection nothing_there(location_);  // throws, and says what is there
  for (const std::filesystem::path& path : files) check_file(path);
  if (report_.files == files.size()) check_ordinals();
  std::stable_sort(report_.findings.begin(), report_.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.file < b.file; });
  return std::move(report_);
}

}  // namespace

VerifyReport verify(const Location& location) {
  return Verifier(location).run();
}

}  // namespace coldframe::cache
