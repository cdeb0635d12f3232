#include "cache/maintain/verify.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>

#include "cache/read/reader.h"
#include "cache/tool/command.h"
#include "cache/tool/exams/exam_list.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/file.h"
#include "common/files/source_stamp.h"
#include "common/text/text.h"

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

const Verb kVerifyCommand{
    &kCache,
    "verify",
    "PATH",
    "x.h5 --input exams.csv",
    "check every checksum, the structure and completeness; exit code 1 with findings",
    run_verify};

}  // namespace coldframe::cache::tool
