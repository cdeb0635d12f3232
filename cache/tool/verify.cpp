#include "cache/verify.h"

#include <iostream>

#include "cache/tool/command.h"
#include "common/error.h"
#include "common/log.h"
#include "common/text.h"

namespace coldframe::cache {
namespace {

Json as_json(const VerifyReport& report) {
  Json json = Json::object();
  json["files"] = report.files;
  json["exams"] = report.exams;
  json["frames"] = report.frames;
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

int run_verify(const std::vector<std::string>& arguments) {
  VerbOptions options;
  if (!parse_verb(kVerifyCommand, arguments, options)) return 0;
  const VerifyReport report = verify(locate(options.path()));
  if (options.json) {
    print_json(as_json(report));
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
             plural(report.frames, "frame"), " checked: ");
  if (report.findings.empty()) {
    log_info(looked_at + "nothing is wrong");
    return static_cast<int>(ExitCode::kDone);
  }
  log_info(looked_at + plural(report.findings.size(), "finding"));
  return static_cast<int>(ExitCode::kDoneWithFindings);
}

}  // namespace

const Command kVerifyCommand{
    "verify", "PATH", "x.h5",
    "check every checksum, the structure and completeness; exit code 1 with findings", run_verify};

}  // namespace coldframe::cache
