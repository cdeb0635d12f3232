#include "cache/tool/verify.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <unordered_map>

#include "cache/format/shard.h"
#include "cache/store/lock.h"
#include "cache/store/reader.h"
#include "cache/tool/command.h"
#include "cache/tool/exams.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/file.h"
#include "common/files/fingerprint.h"
#include "common/text/text.h"
#include "common/threads/threads.h"

namespace coldframe::cache {

namespace {

constexpr std::size_t kMaxOrdinalsNamed = 20;

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
    if (ordinal > expected && missing.size() < kMaxOrdinalsNamed)
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

namespace coldframe::cache::tool {

namespace {

namespace fs = std::filesystem;

// "" when the sources look as they did.
std::string staleness(const ListedExam& listed, const ExamInfo& cached) {
  if (cached.source_stamp.empty()) return "";
  if (files_stamp(listed.files) == files_part(cached.source_stamp)) return "";
  try {
    for (const fs::path& file : listed.files) const InputFile opened(file);
  } catch (const DataError& error) {
    return concat("is stale: its source is gone: ", error.what());
  }
  return "is stale: its source files have another size or modification time than when it was "
         "extracted; run `coldframe extract` again";
}

// Findings: exams of the manifest (a CSV with columns `exam` and `path`, as `extract --input`
// takes, or a list of ids; exam_list.h) that are missing or failed, exams of the cache that it does
// not name, and stale ones: a source file has another size or modification time than when it was
// extracted, or is gone. Content is not read: a file that was only touched counts as stale, and
// `extract` then tells that its content is the same. Exams without a stamp (imported ones) and
// those of a list are never stale. DataError: no manifest.
std::vector<Finding> check_manifest(const CacheReader& cache, const fs::path& manifest) {
  std::map<std::string, std::string> failed;
  for (const Failure& failure : cache.failures()) failed.emplace(failure.exam, failure.reason);
  std::vector<Finding> findings;
  std::vector<bool> named(cache.exams().size());
  const ExamListFile input = read_exam_list(manifest);
  for (const ListedExam& listed : input.exams) {
    const std::size_t index = cache.find(listed.id);
    if (index != CacheReader::npos) {
      named[index] = true;
      const std::string problem = input.has_files ? staleness(listed, cache.exams()[index]) : "";
      if (!problem.empty()) findings.push_back({"", listed.id, problem});
    } else if (const auto failure = failed.find(listed.id); failure != failed.end()) {
      findings.push_back({"", listed.id, "failed: " + failure->second});
    } else {
      findings.push_back({"", listed.id, "is missing: run `coldframe extract` again"});
    }
  }
  for (std::size_t i = 0; i < named.size(); ++i)
    if (!named[i])
      findings.push_back({"", cache.exams()[i].id,
                          "is extra: the input does not name it (any more); `coldframe cache prune "
                          "--where exam=…` takes exams out"});
  return findings;
}

Json report_json(const VerifyReport& report) {
  Json json = Json::object();
  json["files"] = report.files;
  json["exams"] = report.exams;
  json["frames"] = report.frames;
  json["thumbnails"] = report.thumbnails;
  json["repaired"] = report.repaired;
  json["findings"] = Json::array();
  for (const Finding& finding : report.findings) {
    Json entry = Json::object();
    entry["file"] = finding.file;
    entry["exam"] = finding.exam;
    entry["problem"] = finding.problem;
    json["findings"].push_back(std::move(entry));
  }
  return json;
}

void add_manifest_findings(const std::string& cache, const std::string& manifest,
                           VerifyReport& report) {
  try {
    const std::vector<Finding> more = check_manifest(CacheReader(cache), manifest);
    report.findings.insert(report.findings.end(), more.begin(), more.end());
  } catch (const CacheError&) {  // which verify has found already
    if (report.findings.empty()) throw;
    log_warning("the manifest was not compared, since the cache cannot be read");
  }
}

int run_verify(const Verb& verb, const std::vector<std::string>& arguments) {
  namespace po = boost::program_options;
  VerbOptions options;
  std::string input;
  bool repair = false;
  po::options_description more;
  more.add_options()(
      "input", po::value(&input)->value_name("FILE"),
      "also list exams of this manifest (or of this list of ids, one a line) that are "
      "missing, failed or stale, and those of the cache that it does not name")(
      "repair", po::bool_switch(&repair),
      "write the checksum at a file's end anew where another program (h5py in mode r+, HDFView) "
      "cut "
      "it off and every exam matches its own; damaged files stay as they are");
  if (!parse_verb(verb, arguments, options, more)) return 0;
  VerifyReport report =
      verify(locate(options.path()), repair ? Repair::kTrailers : Repair::kNothing);
  for (const std::string& file : report.repaired)
    log_info(concat(
        file, ": its checksum was missing, and all that it holds is as it was: written anew"));
  if (!input.empty()) add_manifest_findings(options.path(), input, report);
  if (options.json) {
    print_json(report_json(report));
  } else {
    for (const Finding& finding : report.findings)
      std::cout << (finding.file.empty() ? "" : finding.file + ": ")
                << (finding.exam.empty() || finding.problem.starts_with("exam '")
                        ? ""
                        : concat("exam '", finding.exam, "': "))
                << finding.problem << '\n';
  }
  const std::string looked_at =
      concat(plural(report.files, "file"), ", ", plural(report.exams, "exam"), ", ",
             plural(report.frames, "frame"),
             report.thumbnails == 0 ? "" : concat(", ", plural(report.thumbnails, "thumbnail")),
             " checked: ");
  if (report.findings.empty()) {
    log_info(looked_at + "nothing is wrong");
    return static_cast<int>(ExitCode::kDone);
  }
  log_info(looked_at + plural(report.findings.size(), "finding"));
  return static_cast<int>(ExitCode::kDoneWithFindings);
}

}  // namespace

extern const Verb kVerifyCommand;
const Verb kVerifyCommand{
    &kCache,
    "verify",
    "PATH",
    "x.h5 --input exams.csv",
    "check every checksum, the structure and completeness; exit code 1 with findings",
    run_verify};

}  // namespace coldframe::cache::tool
