#include "cache/tool/prune.h"

#include <algorithm>
#include <set>

#include "cache/format/shard.h"
#include "cache/store/lock.h"
#include "cache/store/pack.h"
#include "cache/store/parts.h"
#include "cache/store/reader.h"
#include "cache/store/shard_file.h"
#include "cache/tool/command.h"
#include "cache/tool/exams.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/publish/atomic_file.h"
#include "common/text/text.h"

namespace coldframe::cache {

namespace {

namespace fs = std::filesystem;

// Unseen revisions go first, so that none of them comes to light in between.
enum class Step { kUnseen, kSeen };

class Pruner {
 public:
  Pruner(const Location& location, const std::unordered_set<std::string>& ids)
      : location_(location), ids_(ids), cache_(location) {}
  PruneReport run();

 private:
  bool goes(const fs::path& path, const ExamInfo& exam, Step step) const;
  bool goes(const Failure& failure, Step step) const {
    return step == Step::kUnseen && ids_.contains(failure.exam);
  }
  bool is_touched(const ShardFile& file, Step step) const;
  ShardContents without(const ShardFile& file, Step step, std::vector<std::size_t>& rows) const;
  void rewrite(const ShardFile& file, Step step) const;
  PruneReport count() const;

  const Location& location_;
  const std::unordered_set<std::string>& ids_;
  const CacheReader cache_;
};

bool Pruner::goes(const fs::path& path, const ExamInfo& exam, Step step) const {
  if (!ids_.contains(exam.id)) return false;
  const std::size_t index = cache_.find(exam.id);
  const bool seen =
      cache_.path_of(index) == path && cache_.exams()[index].revision == exam.revision;
  return seen == (step == Step::kSeen);
}

bool Pruner::is_touched(const ShardFile& file, Step step) const {
  const ShardContents& contents = file.contents();
  return std::any_of(contents.exams.begin(), contents.exams.end(),
                     [&](const StoredExam& exam) { return goes(file.path(), exam.info, step); }) ||
         std::any_of(contents.failures.begin(), contents.failures.end(),
                     [&](const Failure& failure) { return goes(failure, step); });
}

// The contents of a file without what is removed; `rows`: the numbers in the file of the exams that
// stay.
ShardContents Pruner::without(const ShardFile& file, Step step,
                              std::vector<std::size_t>& rows) const {
  const ShardContents& before = file.contents();
  ShardContents after;
  after.header = before.header;
  std::set<std::uint64_t> free;
  for (std::size_t i = 0; i < before.exams.size(); ++i) {
    if (!goes(file.path(), before.exams[i].info, step)) {
      after.exams.push_back(before.exams[i]);
      rows.push_back(i);
    } else if (step == Step::kSeen) {
      free.insert(before.exams[i].info.ordinal);
    }
  }
  for (const Failure& failure : before.failures) {
    if (!goes(failure, step))
      after.failures.push_back(failure);
    else if (cache_.find(failure.exam) >= cache_.exams().size())
      free.insert(failure.ordinal);
  }
  for (const std::uint64_t ordinal : free) after.failures.push_back(tombstone(ordinal));
  return after;
}

void Pruner::rewrite(const ShardFile& file, Step step) const {
  std::vector<std::size_t> rows;
  const ShardContents kept = without(file, step, rows);
  if (kept.exams.empty() && kept.failures.empty()) return remove_file_durably(file.path());
  const auto read_rows = [&](std::size_t exam, std::size_t array, std::span<std::byte> bytes) {
    const StoredExam& stored = kept.exams[exam];
    file.read_run(*file.open(), rows[exam], 1, array, bytes);
    file.check_rows(stored.info.id, array, stored.checksums[array], bytes);
  };
  const auto read_thumbnails = [&](std::size_t exam, std::span<std::byte> bytes) {
    const StoredExam& stored = kept.exams[exam];
    file.read_thumbnails(*file.open(), rows[exam], bytes);
    file.check_thumbnails(stored.info.id, stored.thumbnails.checksum, bytes);
  };
  publish_large(file.path(), kept, exam_by_exam(kept, read_rows, read_thumbnails),
                as_named(Existing::kReplace));
}

PruneReport Pruner::count() const {
  PruneReport report;
  std::set<std::string> failed;
  for (const Failure& failure : cache_.failures()) {
    report.failures += ids_.contains(failure.exam);
    failed.insert(failure.exam);
  }
  for (const std::string& id : ids_) {
    if (cache_.find(id) < cache_.exams().size())
      ++report.exams;
    else if (!failed.contains(id))
      report.unknown.push_back(id);
  }
  std::sort(report.unknown.begin(), report.unknown.end());
  report.left = cache_.exams().size() - report.exams;
  return report;
}

PruneReport Pruner::run() {
  PruneReport report = count();
  if (report.exams > 0 && report.left == 0)
    throw ConfigError(concat("these are all ", plural(report.exams, "exam"), " of ",
                             location_.path.string(), "; remove the cache itself instead"));
  for (const Step step : {Step::kUnseen, Step::kSeen})
    for (const fs::path& path : location_.files())
      if (const ShardFile file(path); is_touched(file, step)) rewrite(file, step);
  return report;
}

// Files that killed writers left may hold the exams too.
void remove_all_abandoned(const Location& location) {
  for (const fs::path& file : location.files()) remove_abandoned(file);
  remove_abandoned_shards(location);
}

}  // namespace

PruneReport prune(const Location& location, const std::unordered_set<std::string>& ids) {
  if (location.files().empty()) const CacheReader nothing_there(location);  // throws, and says why
  if (const auto writers = writers_at_work(location); !writers.empty())
    throw CacheError(concat(location.path.string(), " is being written by ", join(writers, ", "),
                            "; wait for it to end"));
  const WriterLock no_writer = lock_writer(location, 0);
  require_unshared(location);
  pack(location);
  const WriterLock no_packer = lock_packer(location);
  remove_all_abandoned(location);
  return Pruner(location, ids).run();
}

}  // namespace coldframe::cache

namespace coldframe::cache::tool {

namespace {

constexpr std::size_t kMaxUnknownNamed = 20;

std::unordered_set<std::string> chosen_ids(const std::string& path,
                                           const std::vector<std::string>& where,
                                           const std::string& list) {
  if (where.empty() == list.empty())
    throw ConfigError(
        "say which exams go: either --where COLUMN=VALUE, or --exams with a file that names them");
  if (!where.empty()) return select_ids(path, where);
  std::unordered_set<std::string> ids;
  for (const ListedExam& exam : read_exam_list(list).exams) ids.insert(exam.id);
  return ids;
}

void warn_of_unknown(const std::vector<std::string>& unknown) {
  if (unknown.empty()) return;
  const std::size_t shown = std::min(unknown.size(), kMaxUnknownNamed);
  log_warning(
      concat("the cache does not have ", plural(unknown.size(), "exam"), " of the list: ",
             join({unknown.begin(), unknown.begin() + static_cast<std::ptrdiff_t>(shown)}, ", "),
             unknown.size() > shown ? ", …" : ""));
}

int run_prune(const Verb& verb, const std::vector<std::string>& arguments) {
  namespace po = boost::program_options;
  VerbOptions options;
  std::vector<std::string> where;
  std::string list;
  po::options_description more;
  more.add_options()("where", po::value(&where)->composing()->value_name("CONDITION"), kWhereHelp)(
      "exams", po::value(&list)->value_name("FILE"),
      "the exams of this file: ids, one a line, or a CSV with the column exam");
  if (!parse_verb(verb, arguments, options, more)) return 0;
  const PruneReport report = prune(locate(options.path()), chosen_ids(options.path(), where, list));
  warn_of_unknown(report.unknown);
  if (options.json)
    print_json(Json{{"path", options.path()},
                    {"exams", report.exams},
                    {"failures", report.failures},
                    {"left", report.left},
                    {"unknown", report.unknown}});
  log_info(concat(options.path(), ": ", plural(report.exams, "exam"), " and ",
                  plural(report.failures, "failure"), " taken out, ", plural(report.left, "exam"),
                  " left; take them out of the input too, or `coldframe extract` adds them again"));
  return 0;
}

}  // namespace

extern const Verb kPruneCommand;
const Verb kPruneCommand{
    &kCache,
    "prune",
    "PATH",
    "x.h5 --where patient=P0042",
    "takes exams out of the cache itself, features, metadata and failures, for good",
    run_prune};

}  // namespace coldframe::cache::tool
