#include "cache/maintain/verify.h"

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_map>

#include "cache/format/shard/trailer.h"
#include "cache/maintain/lock.h"
#include "cache/read/reader.h"
#include "common/cli/error.h"
#include "common/text/text.h"
#include "common/threads/parallel.h"

namespace coldframe::cache {
namespace {

constexpr std::size_t kMostOrdinalsNamed = 20;

constexpr std::size_t kRunBytes = 2u << 20;

// Holds what a look at one file found.
struct FileCheck {
  std::filesystem::path path;
  std::unique_ptr<ShardFile> file;  // null when it cannot be opened
  std::vector<Finding> findings;

  void find(const std::string& exam, const std::string& problem) {
    const std::string prefix = path.string() + ": ";  // errors name the file themselves
    findings.push_back({path.string(), exam,
                        problem.starts_with(prefix) ? problem.substr(prefix.size()) : problem});
  }
  void look();
  // Writes the trailer that the file lacks, if all else is as it should be.
  void repair();
  bool repaired = false;

 private:
  void check_exams();
  void check_array(std::size_t array);
  void check_thumbnails();
};

void FileCheck::look() {
  std::string damage;
  try {
    file = std::make_unique<ShardFile>(path, Detail::kAll, Check::kWhole);
  } catch (const CacheError& error) {
    damage = error.what();
  }
  try {  // the metadata may be whole, and say which exams are not
    if (!file) file = std::make_unique<ShardFile>(path);
  } catch (const CacheError&) {
    return find("", damage);
  }
  check_exams();
  if (findings.empty() && !damage.empty()) find("", damage);
  file->close();
  for (StoredExam& exam :
       file->contents().exams)  // most of what is in memory, and compared no more
    exam.info.frame_source = std::vector<std::string>();
}

void FileCheck::repair() {
  try {
    if (!lacks_trailer(path)) return;
    file = std::make_unique<ShardFile>(path, Detail::kAll, Check::kWithoutTrailer);
    check_exams();
    file.reset();
    if (!findings.empty()) return;
    write_trailer(path);
    repaired = true;
  } catch (const CacheError& error) {
    find("", error.what());
  }
}

void FileCheck::check_exams() {
  for (std::size_t array = 0; array < file->contents().header.arrays(); ++array) check_array(array);
  if (file->contents().header.recipe.has_thumbnails()) check_thumbnails();
}

void FileCheck::check_thumbnails() {
  const std::vector<StoredExam>& exams = file->contents().exams;
  std::vector<std::byte> bytes;
  for (std::size_t exam = 0; exam < exams.size(); ++exam) {
    bytes.resize(exams[exam].thumbnails.bytes());
    try {
      file->read_thumbnails(*file->open(), exam, bytes);
      file->check_thumbnails(exams[exam].info.id, exams[exam].thumbnails.checksum, bytes);
    } catch (const CacheError& error) {
      find(exams[exam].info.id, error.what());
    }
  }
}

// Reads many exams at once; one that cannot be read is found by reading them one by one.
void FileCheck::check_array(std::size_t array) {
  const std::vector<StoredExam>& exams = file->contents().exams;
  const auto bytes_of = [&](std::size_t exam) {
    return exams[exam].info.frames() * file->contents().header.row_bytes(array);
  };
  std::vector<std::byte> rows;
  for (std::size_t first = 0, end = 0; first < exams.size(); first = end) {
    std::size_t bytes = bytes_of(end++);
    while (end < exams.size() && bytes + bytes_of(end) <= kRunBytes) bytes += bytes_of(end++);
    rows.resize(bytes);
    bool whole = true;
    try {
      file->read_run(*file->open(), first, end - first, array, rows);
    } catch (const CacheError&) {
      whole = false;
    }
    std::span<std::byte> rest(rows);
    for (std::size_t exam = first; exam < end; ++exam) {
      const std::span<std::byte> part = rest.first(bytes_of(exam));
      rest = rest.subspan(part.size());
      try {
        if (!whole) file->read_run(*file->open(), exam, 1, array, part);
        file->check_rows(exams[exam].info.id, array, exams[exam].checksums[array], part);
      } catch (const CacheError& error) {
        find(exams[exam].info.id, error.what());
      }
    }
  }
}

class Verifier {
 public:
  Verifier(const Location& location, Repair repair) : location_(location), repair_(repair) {}
  VerifyReport run();

 private:
  // An exam of one revision was seen here.
  struct Seen {
    const FileCheck* check;
    const StoredExam* exam;
  };
  void take(FileCheck& check);
  void compare_twins(FileCheck& check, const StoredExam& exam, const FileCheck& other,
                     const StoredExam& twin);
  void check_ordinals();

  Location location_;
  Repair repair_;
  VerifyReport report_;
  std::vector<FileCheck> checks_;
  const ShardHeader* first_ = nullptr;  // of the first file with exams that could be read
  // latest_ has each exam's latest revision; several_ has all that were seen, of exams with
  // several.
  std::unordered_map<std::string_view, Seen> latest_;
  std::unordered_map<std::string_view, std::map<std::uint32_t, Seen>> several_;
  std::vector<Failure> failures_;
};

bool same_content(const StoredExam& a, const StoredExam& b) {
  return a.checksums == b.checksums && a.thumbnails.checksum == b.thumbnails.checksum &&
         a.info.patient == b.info.patient && a.info.ordinal == b.info.ordinal &&
         a.info.columns == b.info.columns && a.info.present == b.info.present;
}

// Equal exams in a folder are of a writer that outlived its job, and do no harm; in a single file
// they are what a crash in packing left.
void Verifier::compare_twins(FileCheck& check, const StoredExam& exam, const FileCheck& other,
                             const StoredExam& twin) {
  const bool same = same_content(twin, exam);
  if (same && !location_.single_file) return;
  check.find(exam.info.id, concat("revision ", exam.info.revision, " is stored twice, ",
                                  same ? "with equal" : "with DIFFERENT",
                                  " content; the other is in ", other.path.string()));
}

// Compares the file with the others.
void Verifier::take(FileCheck& check) {
  if (!check.file) return;
  const ShardContents& contents = check.file->contents();
  if (first_ == nullptr && !contents.exams.empty()) first_ = &contents.header;
  if (first_ != nullptr) {
    ShardHeader header = contents.header;
    if (contents.exams.empty()) header.views = first_->views;
    try {
      require_same_cache(*first_, header, check.path.string());
    } catch (const CacheError& error) {
      check.find("", error.what());
    }
  }
  ++report_.files;
  report_.exams += contents.exams.size();
  latest_.reserve(report_.exams);
  for (const StoredExam& exam : contents.exams) {
    report_.frames += exam.info.frames();
    for (const std::uint64_t size : exam.thumbnails.sizes) report_.thumbnails += size > 0;
    const Seen seen{&check, &exam};
    const auto [latest, is_new] = latest_.emplace(exam.info.id, seen);
    if (is_new) continue;
    auto& revisions = several_[exam.info.id];
    if (revisions.empty()) revisions.emplace(latest->second.exam->info.revision, latest->second);
    const auto [other, first_of_revision] = revisions.emplace(exam.info.revision, seen);
    if (!first_of_revision) compare_twins(check, exam, *other->second.check, *other->second.exam);
    latest->second = revisions.rbegin()->second;
  }
  failures_.insert(failures_.end(), contents.failures.begin(), contents.failures.end());
}

// Every position of the input has one exam, or a failure that says why not.
void Verifier::check_ordinals() {
  std::vector<std::pair<std::uint64_t, std::string_view>> taken;
  for (const auto& [id, seen] : latest_) taken.emplace_back(seen.exam->info.ordinal, id);
  std::sort(taken.begin(), taken.end());
  for (std::size_t i = 1; i < taken.size(); ++i)
    if (taken[i].first == taken[i - 1].first)
      report_.findings.push_back(
          {"", std::string(taken[i].second),
           concat("has the place ", taken[i].first, " of the input, and so has exam '",
                  taken[i - 1].second, "'")});
  for (const Failure& failure : failures_) taken.emplace_back(failure.ordinal, failure.exam);
  std::sort(taken.begin(), taken.end());
  std::vector<std::string> missing;
  std::uint64_t expected = 0, count = 0;
  for (const auto& [ordinal, id] : taken) {
    if (ordinal < expected) continue;
    if (ordinal > expected && missing.size() < kMostOrdinalsNamed)
      missing.push_back(ordinal - expected == 1 ? concat(expected)
                                                : concat(expected, "–", ordinal - 1));
    count += ordinal - expected;
    expected = ordinal + 1;
  }
  if (count > 0)
    report_.findings.push_back(
        {"", "",
         concat("the input's places ", join(missing, ", "), " have neither exam nor failure (",
                count, " missing); run the same `coldframe extract` again")});
}

VerifyReport Verifier::run() {
  const std::vector<std::filesystem::path> files = location_.files();
  if (files.empty()) const CacheReader nothing_there(location_);  // throws, and says what is there
  checks_.resize(files.size());
  parallel_for(files.size(), [&](std::size_t i) {
    checks_[i].path = files[i];
    if (repair_ == Repair::kTrailers) checks_[i].repair();
    checks_[i].look();
  });
  for (FileCheck& check : checks_) take(check);
  for (FileCheck& check : checks_) {
    report_.findings.insert(report_.findings.end(), check.findings.begin(), check.findings.end());
    if (check.repaired) report_.repaired.push_back(check.path.string());
  }
  if (report_.files == files.size()) check_ordinals();
  std::stable_sort(report_.findings.begin(), report_.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.file < b.file; });
  return std::move(report_);
}

}  // namespace

VerifyReport verify(const Location& location, Repair repair) {
  if (repair == Repair::kNothing) return Verifier(location, repair).run();
  const WriterLock no_writer = lock_where_possible(location);
  const WriterLock no_packer = lock_packer(location);
  return Verifier(location, repair).run();
}

}  // namespace coldframe::cache
