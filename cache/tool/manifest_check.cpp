#include "cache/tool/manifest_check.h"

#include <algorithm>
#include <map>

#include "cache/tool/exams/exam_list.h"
#include "common/cli/error.h"
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

}  // namespace

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

}  // namespace coldframe::cache::tool
