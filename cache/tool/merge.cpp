#include "cache/tool/merge.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "cache/format/format.h"
#include "cache/format/shard.h"
#include "cache/store/lock.h"
#include "cache/store/reader.h"
#include "cache/tool/command.h"
#include "cache/tool/diff.h"
#include "cache/tool/exams.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/cli/option_rows.h"
#include "common/text/text.h"

namespace coldframe::cache {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxConflictsShown = 20;

class Merger {
 public:
  Merger(const Location& out, const std::vector<fs::path>& inputs, const MergeOptions& options)
      : out_(out), inputs_(inputs), options_(options) {
    for (const fs::path& input : inputs) caches_.emplace_back(input);
  }
  MergeReport run();

 private:
  struct SourceExam {
    std::size_t cache, exam;
  };
  const ExamInfo& info(const SourceExam& place) const {
    return caches_[place.cache].exams()[place.exam];
  }
  std::string prefix_of(std::size_t cache) const {
    return options_.prefixes.empty() ? "" : options_.prefixes[cache];
  }
  ExamInfo named(const SourceExam& place) const;  // with its prefix
  ShardHeader header_of(const CacheReader& cache) const;
  void join_headers();
  void choose_exams();
  void choose_source_exams();
  void choose_failures();
  void settle(SourceExam& chosen, const SourceExam& other);
  bool is_left_out(const std::string& id) const {
    return options_.only && !options_.only->contains(id);
  }
  void keep_places_free();
  std::vector<std::string> differences_of(const SourceExam& a, const SourceExam& b) const;
  [[noreturn]] void refuse_conflicts() const;

  Location out_;
  const std::vector<fs::path>& inputs_;
  const MergeOptions& options_;
  std::vector<CacheReader> caches_;
  std::vector<SourceExam> chosen_;
  ShardContents contents_;
  MergeReport report_;
  std::vector<MergeConflict> undecided_;
};

ShardHeader Merger::header_of(const CacheReader& cache) const {
  ShardHeader header = cache.header();
  // The keys have the names of the groups.
  if (options_.without_thumbnails) header.recipe.leave_out(kThumbnails);
  if (options_.without_cut) {
    header.recipe.leave_out(kCut);
    header.cut.reset();
  }
  return header;
}

void Merger::join_headers() {
  // A cache of failures alone knows no views.
  const auto with_exams = std::find_if(caches_.begin(), caches_.end(),
                                       [](const auto& cache) { return !cache.exams().empty(); });
  contents_.header = header_of(with_exams == caches_.end() ? caches_.front() : *with_exams);
  std::vector<std::string>& precisions = contents_.header.precisions;
  for (std::size_t i = 0; i < caches_.size(); ++i) {
    ShardHeader header = header_of(caches_[i]);
    if (caches_[i].exams().empty()) header.views = contents_.header.views;
    require_same_cache(contents_.header, header, inputs_[i].string(),
                       "\nOnly caches of one recipe can be merged.");
    for (const std::string& precision : header.precisions)
      if (std::find(precisions.begin(), precisions.end(), precision) == precisions.end())
        precisions.push_back(precision);
  }
}

ExamInfo Merger::named(const SourceExam& place) const {
  ExamInfo named = info(place);
  const std::string prefix = prefix_of(place.cache);
  named.id = prefix + named.id;
  if (!named.patient.empty()) named.patient = prefix + named.patient;
  return named;
}

std::vector<std::string> Merger::differences_of(const SourceExam& a, const SourceExam& b) const {
  std::vector<std::string> lines = differences(named(a), named(b));
  const ShardHeader& header = contents_.header;
  for (std::size_t i = 0; i < header.arrays(); ++i)
    if (caches_[a.cache].checksums(a.exam)[i] != caches_[b.cache].checksums(b.exam)[i])
      lines.push_back(header.array(i).name);
  return lines;
}

void Merger::settle(SourceExam& chosen, const SourceExam& other) {
  std::vector<std::string> lines = differences_of(chosen, other);
  if (lines.empty()) {
    if (info(other).revision > info(chosen).revision) chosen = other;
    return;
  }
  SourceExam left = other;
  const std::uint32_t mine = info(chosen).revision, others = info(other).revision;
  if (options_.prefer == Prefer::kNewest && others > mine) {
    std::swap(chosen, left);
    const auto of_this = [&](const MergeConflict& one) { return one.exam == named(left).id; };
    std::erase_if(undecided_, of_this);
    std::erase_if(report_.conflicts, of_this);
    lines = differences_of(chosen, left);
  }
  MergeConflict conflict{named(chosen).id, inputs_[chosen.cache], inputs_[left.cache],
                         std::move(lines)};
  if (options_.prefer == Prefer::kNone || (options_.prefer == Prefer::kNewest && mine == others))
    undecided_.push_back(conflict);
  report_.conflicts.push_back(std::move(conflict));
}

void Merger::refuse_conflicts() const {
  throw CacheError(concat(
      plural(undecided_.size(), "exam"), undecided_.size() == 1 ? " has" : " have",
      " one name and different content in the caches",
      options_.prefer == Prefer::kNewest ? ", and one revision, so that none is the newest" : "",
      "; nothing was written\n  ", join(conflict_lines(undecided_), "\n  "),
      "\nSay --prefer first to keep what the cache that is named first has, --prefer newest to "
      "keep the higher revision, or --prefix A-,B- when they are different exams; `coldframe cache "
      "diff` compares two caches in full."));
}

void Merger::choose_exams() {
  std::unordered_map<std::string, std::size_t> index;
  for (std::size_t c = 0; c < caches_.size(); ++c) {
    for (std::size_t e = 0; e < caches_[c].exams().size(); ++e) {
      if (is_left_out(caches_[c].exams()[e].id)) continue;
      const auto [entry, is_new] =
          index.emplace(prefix_of(c) + caches_[c].exams()[e].id, chosen_.size());
      if (is_new) {
        chosen_.push_back({c, e});
      } else {
        ++report_.duplicates;
        settle(chosen_[entry->second], {c, e});
      }
    }
  }
  if (!undecided_.empty()) refuse_conflicts();
}

void Merger::choose_source_exams() {
  std::set<std::uint64_t> taken;
  for (const SourceExam& place : chosen_) taken.insert(info(place).ordinal);
  report_.renumbered = taken.size() < chosen_.size();
  if (!report_.renumbered)
    std::sort(chosen_.begin(), chosen_.end(), [&](const SourceExam& a, const SourceExam& b) {
      return info(a).ordinal < info(b).ordinal;
    });
  for (const SourceExam& place : chosen_) {
    const CacheReader& cache = caches_[place.cache];
    contents_.exams.push_back(
        {named(place), cache.checksums(place.exam), cache.stored_thumbnails(place.exam)});
    contents_.exams.back().checksums.resize(contents_.header.arrays());
    if (report_.renumbered) contents_.exams.back().info.ordinal = contents_.exams.size() - 1;
  }
}

// A failure holds unless a later revision of its exam is among what was chosen. One of the exam's
// own revision tells of frames that it lacks: it holds for the cache that the exam was chosen from.
void Merger::choose_failures() {
  std::unordered_map<std::string_view, std::size_t> exams;
  for (std::size_t i = 0; i < chosen_.size(); ++i) exams.emplace(contents_.exams[i].info.id, i);
  std::vector<std::pair<Failure, std::size_t>> failures;  // with the cache
  std::unordered_map<std::string, std::uint32_t> latest;
  for (std::size_t c = 0; c < caches_.size(); ++c)
    for (const Failure& failure : caches_[c].failures()) {
      if (is_left_out(failure.exam)) continue;
      failures.emplace_back(failure, c);
      failures.back().first.exam = prefix_of(c) + failure.exam;
      std::uint32_t& revision = latest[failures.back().first.exam];
      revision = std::max(revision, failure.revision);
    }
  const std::uint64_t behind = contents_.exams.size();
  std::unordered_map<std::string, std::uint64_t> places;
  for (auto& [failure, cache] : failures) {
    const auto exam = exams.find(failure.exam);
    const bool there = exam != exams.end();
    const ExamInfo* const info = there ? &contents_.exams[exam->second].info : nullptr;
    const bool of_frames = there && is_of_frames(failure, *info);
    if (of_frames ? chosen_[exam->second].cache != cache
                  : failure.revision < latest[failure.exam] ||
                        (there && info->revision > failure.revision))
      continue;
    if (there)
      failure.ordinal = info->ordinal;
    else if (report_.renumbered)
      failure.ordinal = places.emplace(failure.exam, behind + places.size()).first->second;
    contents_.failures.push_back(std::move(failure));
  }
  report_.failures = contents_.failures.size();
}

// Places of exams that are or were left out, where the rest keeps its own.
void Merger::keep_places_free() {
  if (report_.renumbered) return;
  std::set<std::uint64_t> free;
  for (const auto& cache : caches_) {
    free.insert(cache.deleted_ordinals().begin(), cache.deleted_ordinals().end());
    for (const ExamInfo& exam : cache.exams())
      if (is_left_out(exam.id)) free.insert(exam.ordinal);
    for (const Failure& failure : cache.failures())
      if (is_left_out(failure.exam)) free.insert(failure.ordinal);
  }
  for (const StoredExam& exam : contents_.exams) free.erase(exam.info.ordinal);
  for (const std::uint64_t place : free) contents_.failures.push_back(tombstone(place));
}

MergeReport Merger::run() {
  join_headers();
  choose_exams();
  choose_source_exams();
  choose_failures();
  keep_places_free();
  report_.exams = contents_.exams.size();
  const auto read_rows = [&](std::size_t exam, std::size_t array, std::span<std::byte> rows) {
    const SourceExam& place = chosen_[exam];
    caches_[place.cache].read_rows(place.exam, array, rows);
  };
  const auto read_thumbnails = [&](std::size_t exam, std::span<std::byte> bytes) {
    const SourceExam& place = chosen_[exam];
    caches_[place.cache].read_thumbnails(place.exam, bytes);
  };
  publish_large(out_.path, contents_, exam_by_exam(contents_, read_rows, read_thumbnails),
                as_named(Existing::kKeep));
  return report_;
}

}  // namespace

MergeReport merge_caches(const Location& out, const std::vector<fs::path>& inputs,
                         const MergeOptions& options) {
  if (!out.single_file)
    throw ConfigError(
        concat(out.path.string(), ": the output is one file, whose name must end in .h5"));
  if (!options.prefixes.empty() && options.prefixes.size() != inputs.size())
    throw ConfigError(concat("--prefix has ", plural(options.prefixes.size(), "part"), " for ",
                             plural(inputs.size(), "cache"),
                             "; give one for each, in their order, such as site1-,site2-"));
  const WriterLock lock = lock_where_possible(out);
  require_new(out);
  remove_stale_temporaries(out.path);
  return Merger(out, inputs, options).run();
}

std::vector<std::string> conflict_lines(const std::vector<MergeConflict>& conflicts) {
  std::vector<std::string> lines;
  std::map<std::string, std::size_t> counts;  // "column label", by the text before its values
  for (const MergeConflict& conflict : conflicts) {
    for (const std::string& difference : conflict.differences)
      ++counts[difference.substr(0, difference.find(" '"))];
    if (lines.size() < kMaxConflictsShown)
      lines.push_back(concat("exam '", conflict.exam, "' in ", conflict.kept.string(), " and in ",
                             conflict.other.string(), ": ", join(conflict.differences, ", ")));
  }
  if (conflicts.size() <= kMaxConflictsShown) return lines;
  std::vector<std::string> totals;
  for (const auto& [what, count] : counts) totals.push_back(concat(what, " ×", count));
  lines.push_back(concat("… and ", conflicts.size() - kMaxConflictsShown,
                         " more; in all: ", join(totals, ", ")));
  return lines;
}

}  // namespace coldframe::cache

namespace coldframe::cache::tool {

namespace {

std::vector<OptionRow> leave_out_options(MergeOptions& how) {
  return {{"without-thumbnails", nullptr, flag(how.without_thumbnails),
           "leave out the frames' small JPEGs, for instance before the cache is given away"},
          {"without-cut", nullptr, flag(how.without_cut),
           "leave out what `extract --cut` stored: the features alone are some 200 times smaller"}};
}

Json report_json(const std::string& path, const MergeReport& report) {
  Json json{{"path", path},
            {"exams", report.exams},
            {"failures", report.failures},
            {"duplicates", report.duplicates},
            {"renumbered", report.renumbered},
            {"conflicts", Json::array()}};
  for (const MergeConflict& conflict : report.conflicts)
    json["conflicts"].push_back(Json{{"exam", conflict.exam},
                                     {"kept", conflict.kept.string()},
                                     {"other", conflict.other.string()},
                                     {"differences", conflict.differences}});
  return json;
}

int write_merged(const VerbOptions& options, const MergeOptions& how) {
  const std::vector<std::filesystem::path> inputs(options.words.begin() + 1, options.words.end());
  const MergeReport report = merge_caches(locate(options.path()), inputs, how);
  if (options.json) print_json(report_json(options.path(), report));
  for (const std::string& line : conflict_lines(report.conflicts))
    log_warning(concat("the first is kept: ", line));
  log_info(concat(
      options.path(), ": ", plural(report.exams, "exam"), ", ", plural(report.failures, "failure"),
      report.duplicates == 0 ? ""
                             : concat("; ", plural(report.duplicates, "exam"), " more than once"),
      report.renumbered ? "; places in the input collided and were numbered anew" : ""));
  return 0;
}

int run_merge(const Verb& verb, const std::vector<std::string>& arguments) {
  static const WordTable<Prefer> kPreferences = {{"first", Prefer::kFirst},
                                                 {"newest", Prefer::kNewest}};
  VerbOptions options;
  MergeOptions how;
  GivenWords given;
  boost::program_options::options_description more;
  const std::vector<OptionRow> rows = {
      {"prefer", "WHICH", one_of(how.prefer, kPreferences),
       "for exams that the caches have with different columns, times or features: first keeps what "
       "the cache that is named first has, newest the higher revision (else nothing is "
       "merged)"},
      {"prefix", "A,B",
       parsed(how.prefixes, [](const std::string& word) { return split(word, ','); }),
       "put these before the names of exams and patients, one for each cache in their order: "
       "site1-,site2-"}};
  const std::vector<OptionRow> left_out = leave_out_options(how);
  describe_options(rows, given, more);
  describe_options(left_out, given, more);
  if (!parse_verb(verb, arguments, options, more)) return 0;
  set_options(rows, given);
  set_options(left_out, given);
  return write_merged(options, how);
}

int run_pack(const Verb& verb, const std::vector<std::string>& arguments) {
  VerbOptions options;
  MergeOptions how;
  GivenWords given;
  std::vector<std::string> where;
  boost::program_options::options_description more;
  more.add_options()("where",
                     boost::program_options::value(&where)->composing()->value_name("CONDITION"),
                     kWhereHelp);
  const std::vector<OptionRow> left_out = leave_out_options(how);
  describe_options(left_out, given, more);
  if (!parse_verb(verb, arguments, options, more)) return 0;
  set_options(left_out, given);
  if (!where.empty()) how.only = select_ids(options.words[1], where);
  return write_merged(options, how);
}

}  // namespace

extern const Verb kMergeCommand;
const Verb kMergeCommand{
    &kCache,
    "merge",
    "OUT A B…",
    "all.h5 site1.cache site2.h5 --prefix site1-,site2-",
    "caches of one recipe become one file; where they differ in an exam, it says how and asks",
    run_merge};
extern const Verb kPackCommand;
const Verb kPackCommand{
    &kCache,
    "pack",
    "OUT PATH",
    "x.h5 x.cache",
    "a folder of shards becomes one file, without superseded revisions; or a copy of some exams",
    run_pack};

}  // namespace coldframe::cache::tool
