#include "cache/tool/manifest_check.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "common/cli/error.h"
#include "common/files/csv.h"
#include "common/files/source_stamp.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

namespace fs = std::filesystem;

struct Listed {
  std::string id;
  std::vector<fs::path> files;  // each once, in order of appearance
};

std::vector<Listed> read_manifest(const fs::path& path) {
  const CsvTable table = read_csv(path);
  const std::size_t exam = table.require_column("exam"), file = table.require_column("path");
  std::vector<Listed> exams;
  std::unordered_map<std::string, std::size_t> places;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const std::string id = trim(table.rows[row][exam]), name = trim(table.rows[row][file]);
    if (id.empty())
      throw DataError(concat(table.name, ", line ", table.lines[row], ": column 'exam' is empty"));
    const auto [place, is_new] = places.emplace(id, exams.size());
    if (is_new) exams.push_back({id, {}});
    std::vector<fs::path>& files = exams[place->second].files;
    const fs::path full = path.parent_path() / fs::path(name);
    if (!name.empty() && std::find(files.begin(), files.end(), full) == files.end())
      files.push_back(full);
  }
  return exams;
}

// "" when the sources look as they did.
std::string staleness(const Listed& listed, const ExamInfo& cached) {
  if (cached.source_stamp.empty()) return "";
  try {
    return files_stamp(listed.files) == files_part(cached.source_stamp)
               ? ""
               : "is stale: its source files have another size or modification time than when it "
                 "was extracted; run `coldframe extract` again";
  } catch (const DataError& error) {
    return concat("is stale: its source is gone: ", error.what());
  }
}

}  // namespace

std::vector<Finding> check_manifest(const CacheReader& cache, const fs::path& manifest) {
  std::map<std::string, std::string> failed;
  for (const Failure& failure : cache.failures()) failed.emplace(failure.exam, failure.reason);
  std::vector<Finding> findings;
  std::vector<bool> named(cache.exams().size());
  for (const Listed& listed : read_manifest(manifest)) {
    const std::size_t index = cache.find(listed.id);
    if (index != CacheReader::npos) {
      named[index] = true;
      const std::string problem = staleness(listed, cache.exams()[index]);
      if (!problem.empty()) findings.push_back({"", listed.id, problem});
    } else if (const auto failure = failed.find(listed.id); failure != failed.end()) {
      findings.push_back({"", listed.id, "failed: " + failure->second});
    } else {
      findings.push_back({"", listed.id, "is missing: run `coldframe extract` again"});
    }
  }
  for (std::size_t i = 0; i < named.size(); ++i)
    if (!named[i])
      findings.push_back({"", cache.exams()[i].id, "is extra: the manifest does not name it"});
  return findings;
}

}  // namespace coldframe::cache::tool
