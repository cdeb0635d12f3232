#include "cache/maintain/verify.h"

#include <iostream>

#include "cache/tool/command.h"
#include "cache/tool/manifest_check.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

Json report_json(const VerifyReport& report) {
  Json json = Json::object();
  json["files"] = report.files;
  json["exams"] = report.exams;
  json["frames"] = report.frames;
  json["thumbnails"] = report.thumbnails;
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
  po::options_description more;
  more.add_options()(
      "input", po::value(&input)->value_name("FILE"),
      "also list exams of this manifest (or of this list of ids, one a line) that are "
      "missing, failed or stale, and those of the cache that it does not name");
  if (!parse_verb(verb, arguments, options, more)) return 0;
  VerifyReport report = verify(locate(options.path()));
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
    "cache",
    "verify",
    "PATH",
    "x.h5 --input exams.csv",
    "check every checksum, the structure and completeness; exit code 1 with findings",
    run_verify};

}  // namespace coldframe::cache::tool
