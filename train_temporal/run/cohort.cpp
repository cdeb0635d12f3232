#include "train_temporal/run/cohort.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "cache/format/layout.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/csv.h"
#include "common/text/spelling.h"
#include "common/text/text.h"
#include "common/text/timestamp.h"
#include "train_temporal/data/sequence_reader.h"
#include "train_temporal/labels/cox.h"
#include "train_temporal/labels/labels.h"
#include "train_temporal/labels/split.h"
#include "train_temporal/labels/target.h"
#include "train_temporal/run/named_caches.h"

namespace coldframe::temporal {

namespace {

constexpr double kSecondsOfDay = 86400;

// The words stand for `train --visits` and for a run that was trained so.
[[noreturn]] void refuse_visits(const std::string& column, const std::string& why) {
  throw ConfigError(concat("visits are joined by '", column, "' (train --visits), ", why));
}

// A date and a number of days cannot be compared.
std::vector<double> read_times(const std::vector<cache::ExamInfo>& exams,
                               const std::vector<std::string>& texts, const std::string& column) {
  std::vector<double> times;
  std::map<bool, std::size_t> first;  // exam with a date, and with a number of days
  for (std::size_t i = 0; i < texts.size(); ++i) {
    times.push_back(cache::kUnknownTime);
    if (texts[i].empty()) continue;
    const auto time = parse_timestamp(texts[i]);
    if (!time)
      refuse_visits(column,
                    concat("and '", texts[i], "' of exam '", exams[i].id,
                           "' is no time; expected a date (2024-03-01) or a number of days"));
    times.back() = time->absolute ? time->seconds : time->seconds * kSecondsOfDay;
    first.emplace(time->absolute, i);
  }
  if (first.size() < 2) return times;
  refuse_visits(column, concat("and '", texts[first[false]], "' of exam '", exams[first[false]].id,
                               "' is a number of days, '", texts[first[true]], "' of exam '",
                               exams[first[true]].id, "' a date; expected one kind in all exams"));
}

std::vector<double> times_of(const SequenceReader& cache, const std::string& column,
                             std::vector<std::string>& warnings) {
  const auto names = cache.column_names();
  if (std::ranges::find(names, column) != names.end()) {
    cache.require_agreed(column);
    const auto texts = exam_column(cache.exams(), nullptr, column, "visits", warnings);
    return read_times(cache.exams(), texts, column);
  }
  if (column != kStartTime)
    refuse_visits(column, concat("and the cache has no such column of exams; it has ",
                                 names.empty() ? "none" : join(names, ", ")));
  std::vector<double> times;
  for (const cache::ExamInfo& exam : cache.exams()) times.push_back(exam.start_time);
  return times;
}

// The exams of each patient who is known, by index.
std::map<std::string, std::vector<std::size_t>> exams_by_patient(
    const SequenceReader& cache, const std::string& column, EqualNumbers numbers,
    std::vector<std::string>& warnings) {
  std::map<std::string, std::vector<std::size_t>> exams;
  const std::vector<std::string> patients = known_patients(cache.exams(), numbers, warnings);
  for (std::size_t i = 0; i < patients.size(); ++i)
    if (!patients[i].empty()) exams[patients[i]].push_back(i);
  if (!exams.empty() || cache.exams().empty()) return exams;
  refuse_visits(column,
                "and this cache names no patients; extract it again with a `patient` column");
}

void require_times(const SequenceReader& cache, const std::vector<std::size_t>& exams,
                   const std::vector<double>& times, const std::string& column) {
  if (exams.size() == 1) return;
  for (const std::size_t exam : exams) {
    if (std::isfinite(times[exam])) continue;
    refuse_visits(column,
                  concat("and exam '", cache.exams()[exam].id, "' has no time, and its patient ",
                         "has ", exams.size(), " exams; give it one"));
  }
}

// Caches are named as the streams that the run learnt.
void require_named(std::vector<std::string> names, const Arrangement& arrangement) {
  if (names.empty()) return;
  if (arrangement.stream_column.empty())
    throw ConfigError(concat("--cache names the streams ", join(names, ", "),
                             ", and the run was trained without streams; give one cache by its "
                             "path"));
  std::vector<std::string> expected = arrangement.stream_names;
  std::ranges::sort(names);
  std::ranges::sort(expected);
  if (names != expected)
    throw ConfigError(concat("--cache names the streams ", join(names, ", "),
                             ", and the run learnt ", join(expected, ", "),
                             "; give a cache for each of these, by its name"));
}

void require_file_names(const std::vector<std::string>& streams) {
  for (const std::string& name : streams)
    if (!names_stream(name))
      throw ConfigError(concat("--streams: the stream '", name,
                               "' cannot name a file; expected letters, digits, -, _ and +"));
}

// Reports how many exams and instants have several streams; warns if none do.
std::vector<std::string> tell_matches(const SequenceReader& cache) {
  const StreamMatches matches = cache.stream_matches();
  log_info(concat("streams ", join(cache.streams(), ", "), ": ", matches.matched_exams, " of ",
                  plural(matches.exams, "exam"), " have more than one, ", matches.matched_instants,
                  " of ", plural(matches.instants, "instant"), " a frame of more than one"));
  if (matches.matched_exams == 0)
    return {concat("no exam has more than one of the streams ", join(cache.streams(), ", "),
                   "; caches of streams are matched by the ids of exams, which have to be alike, "
                   "and each part now counts as an exam of its own")};
  if (matches.matched_instants == 0)
    return {
        "no two streams have a frame at the same instant (within a millisecond), so that one is "
        "missing at every instant; look at the exams' start and frame times"};
  return {};
}

}  // namespace

std::vector<std::string> arrange(SequenceReader& cache, const Arrangement& arrangement,
                                 EqualNumbers of_patients) {
  std::vector<std::string> warnings;
  require_named(cache.cache_names(), arrangement);
  if (!arrangement.stream_column.empty()) {
    const bool one = cache.cache_names().empty();
    cache.merge_streams(one ? arrangement.stream_column : kStreamColumn, arrangement.stream_names);
    require_file_names(cache.streams());
    warnings = tell_matches(cache);
  } else if (const auto names = stream_names(cache.exams(), kStreamColumn); names.size() > 1) {
    warnings.push_back(concat("frames of the streams ", join(names, ", "),
                              " follow one another as one sequence; --streams ", kStreamColumn,
                              " reads them side by side"));
  }
  if (!arrangement.visits.empty()) join_visits(cache, arrangement.visits, of_patients, warnings);
  return warnings;
}

std::vector<std::string> unlearnt_streams(const SequenceReader& cache,
                                          const std::vector<Split>& splits) {
  std::vector<std::string> said;
  for (std::size_t s = 0; s < cache.streams().size(); ++s) {
    const auto has = [&](std::size_t exam) { return cache.has_stream(exam, s); };
    std::set<std::size_t> held_out;
    for (const Split& split : splits) {
      if (std::ranges::any_of(split.train, has)) continue;
      for (const auto* part : {&split.validation, &split.test})
        std::ranges::copy_if(*part, std::inserter(held_out, held_out.end()), has);
    }
    if (!held_out.empty())
      said.push_back(concat("stream '", cache.streams()[s], "': ", plural(held_out.size(), "exam"),
                            " with it, which no exam of the training part of their fold has; it "
                            "counts as missing"));
  }
  return said;
}

void join_visits(SequenceReader& cache, const std::string& column, EqualNumbers of_patients,
                 std::vector<std::string>& warnings) {
  const std::vector<double> times = times_of(cache, column, warnings);
  std::vector<std::vector<std::size_t>> parts(cache.exams().size());
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = {i};
  for (auto& [patient, exams] : exams_by_patient(cache, column, of_patients, warnings)) {
    require_times(cache, exams, times, column);
    std::ranges::stable_sort(exams, {}, [&](std::size_t exam) { return times[exam]; });
    for (const std::size_t exam : exams) {
      if (present_frames(cache.exams()[exam]) == 0) continue;
      std::vector<std::size_t> seen;
      for (const std::size_t earlier : exams)
        if (times[earlier] < times[exam]) seen.push_back(earlier);
      parts[exam].insert(parts[exam].begin(), seen.begin(), seen.end());
    }
  }
  cache.join_exams(std::move(parts), times);
}

namespace {

constexpr std::size_t kDefaultFolds = 5;

std::vector<std::string> known_columns(const SequenceReader& cache, const CsvTable* table) {
  std::vector<std::string> names = cache.column_names();
  for (const cache::ExamInfo& exam : cache.exams()) {
    for (const cache::FrameColumn& column : exam.frame_columns) names.push_back(column.name);
    if (!exam.frame_columns.empty()) break;
  }
  if (table != nullptr) names.insert(names.end(), table->header.begin(), table->header.end());
  return names;
}

// Another column, or a time and its event, in place of the only target's.
void rename(LabelOptions& wanted, const std::string& text,
            const std::vector<std::string>& columns) {
  if (wanted.event.empty()) {
    wanted.target = text;
    return;
  }
  const TargetRequest request = parse_targets(text, "auto", columns).front();
  if (request.event.empty())
    throw ConfigError(concat("--target ", text,
                             ": the run learnt a time to an event; expected "
                             "TIME:EVENT, two columns"));
  wanted.target = request.name;
  wanted.event = request.event;
}

std::vector<LabelOptions> wanted_labels(const TargetOptions& options,
                                        const std::vector<Target>& known,
                                        const std::vector<std::string>& columns) {
  std::vector<LabelOptions> wanted;
  for (const Target& target : known) {
    wanted.push_back({target.name, target.is_timed() ? options.positive : std::string(),
                      target.classes, target.task, true});
    wanted.back().changes = target.changes;
  }
  if (!known.empty() && !options.positive.empty() && std::ranges::none_of(known, &Target::is_timed))
    throw ConfigError(
        concat("--positive says which value means that an event came, and the run learnt ",
               names_of(known), "; its classes stay as they are, leave it out"));
  for (std::size_t t = 0; t < known.size(); ++t) {
    wanted[t].event = known[t].event;
    wanted[t].event_value = known[t].event_value;
    wanted[t].horizons = known[t].horizons;
  }
  if (wanted.size() == 1 && !options.target.empty()) rename(wanted[0], options.target, columns);
  if (wanted.size() > 1 && !options.target.empty()) {
    throw ConfigError(concat("--target renames the target of a run that has one; this run has ",
                             names_of(known), ": leave it out"));
  }
  for (LabelOptions& one : wanted) one.unclear = options.unclear_labels;
  if (!wanted.empty()) return wanted;
  for (const TargetRequest& request : parse_targets(options.target, options.task, columns)) {
    wanted.push_back({request.name, options.positive, {}, request.task});
    wanted.back().event = request.event;
    wanted.back().horizons = options.horizons;
    wanted.back().unclear = options.unclear_labels;
    wanted.back().changes = options.dropped;
    std::ranges::copy(options.merged, std::back_inserter(wanted.back().changes));
  }
  const bool changes = !wanted.front().changes.empty();
  if (changes && (wanted.size() > 1 || !wanted.front().event.empty()))
    throw ConfigError(
        concat("--drop-class and --merge-classes are for the classes of a single target, and "
               "--target ",
               options.target, wanted.size() > 1 ? " names several" : " is a time to an event",
               "; change the columns instead"));
  if (!options.horizons.empty() &&
      std::ranges::all_of(wanted, [](const LabelOptions& one) { return one.event.empty(); }))
    throw ConfigError("--horizons is for a time to an event, --target TIME:EVENT; leave it out");
  if (wanted.size() > 1 && !options.positive.empty()) {
    throw ConfigError("--positive is for a single target; give columns of 0 and 1 instead");
  }
  return wanted;
}

Targets read_targets(const SequenceReader& cache, const std::optional<CsvTable>& table,
                     const TargetOptions& options, const std::vector<Target>& known) {
  std::vector<Labels> all;
  const auto columns = known_columns(cache, table ? &*table : nullptr);
  for (const LabelOptions& wanted : wanted_labels(options, known, columns)) {
    for (const std::string& name : {wanted.target, wanted.event})
      if (!table || !table->column(name)) cache.require_agreed(name);
    all.push_back(!wanted.event.empty()
                      ? survival_labels(cache.exams(), table ? &*table : nullptr, wanted)
                  : table ? labels_from_csv(cache.exams(), *table, wanted)
                          : labels_from_cache(cache.exams(), wanted));
    Labels& labels = all.back();
    labels.notes.insert(
        labels.notes.begin(),
        concat("'", labels.name, "': ", task_name(labels.task),
               labels.per_frame ? ", per frame" : "",
               wanted.task || labels.is_timed() ? ""
                                                : " (by the column's type; --task says otherwise)",
               labels.has_classes() ? concat(": ", class_counts(labels)) : ""));
  }
  return Targets(std::move(all));
}

// Exams of which no frame is present cannot be shown to a model.
void leave_out_empty_exams(Cohort& cohort) {
  std::size_t empty = 0;
  for (std::size_t i = 0; i < cohort.exams().size(); ++i) {
    if (!cohort.targets.labeled(i) || present_frames(cohort.exams()[i]) > 0) continue;
    cohort.targets.mask(i);
    ++empty;
  }
  if (empty == 0) return;
  cohort.warnings.push_back(concat(plural(empty, "exam"), " without any readable frame left out"));
  if (cohort.targets.labeled() == 0) throw DataError("no labelled exam has a readable frame");
}

std::vector<std::size_t> numbered(const std::vector<std::string>& patients) {
  std::map<std::string, std::size_t> number;
  std::vector<std::size_t> result;
  for (const std::string& patient : patients) {
    result.push_back(number.emplace(patient, number.size()).first->second);
  }
  return result;
}

// Patients, or what --group makes of them.
std::vector<std::string> together(Cohort& cohort, const TrainOptions& options) {
  if (options.group.empty()) return cohort.patients;
  return groups_of(cohort.exams(), cohort.targets, cohort.patients,
                   cohort.column(options.group, "group"), options.group);
}

SplitSet split_set(Cohort& cohort, const TrainOptions& options, std::string& how) {
  if (!options.splits.empty()) {
    how = concat("as ", options.splits.filename().string(), " says");
    return splits_from_csv(read_csv(options.splits), cohort.exams(), cohort.targets,
                           cohort.patients, options.seed);
  }
  const bool divides = options.each_patient || options.each_group || !options.group.empty();
  if (options.split_column ||
      (options.folds == 0 && !divides && has_split_column(cohort.exams()))) {
    if (options.repeats > 1) {
      throw ConfigError("--repeats divides anew; it needs --folds, not the cache's split column");
    }
    how = "as the cache's split column says";
    cohort.cache.require_agreed("split");
    return split_from_column(cohort.exams(), cohort.targets, cohort.patients, options.seed);
  }
  if (options.each_patient) {
    how = "each patient held out once";
    return leave_one_out(cohort.targets, cohort.patients, cohort.patients, options.seed);
  }
  const std::vector<std::string> groups = together(cohort, options);
  const bool grouped = !options.group.empty();
  const std::string what = grouped ? "group" : "patient";
  const std::string by = grouped ? concat("patient and ", options.group) : what;
  if (options.each_group) {
    how = concat("each ", options.group, " held out once");
    return leave_one_out(cohort.targets, cohort.patients, groups, options.seed, what);
  }
  if (options.folds == 1) {
    how = concat("one part held out, by ", by);
    if (options.repeats > 1) throw ConfigError("--repeats needs --folds of 2 or more");
    return make_holdout(cohort.targets, groups, options.seed, what);
  }
  const std::size_t folds = options.folds > 0 ? options.folds : kDefaultFolds;
  how = concat(folds, " folds by ", by);
  if (options.repeats > 1) how += concat(", ", options.repeats, " times");
  return make_folds(cohort.targets, groups, folds, options.seed, options.repeats, what);
}

// Exams with identical features in different parts of a split, by the first of each group: a
// held-out exam was then also trained on, under another patient.
std::map<std::size_t, std::size_t> copies_across(const Cohort& cohort,
                                                 const std::vector<Split>& splits) {
  std::map<std::uint64_t, std::size_t> first;  // by checksum
  std::map<std::size_t, std::size_t> copy_of;
  for (std::size_t exam : cohort.labeled()) {
    for (const std::uint64_t sum : cohort.cache.clean_checksums(exam)) {
      const auto [known, added] = first.emplace(sum, exam);
      if (!added && known->second != exam) copy_of[exam] = known->second;
    }
  }
  std::map<std::size_t, std::size_t> across;
  for (const Split& split : splits) {
    std::map<std::size_t, const char*> part_of;
    for (const auto& [name, exams] : parts_of(split)) {
      for (std::size_t exam : *exams) part_of[exam] = name;
    }
    for (const auto& [copy, original] : copy_of) {
      const auto a = part_of.find(copy), b = part_of.find(original);
      if (a != part_of.end() && b != part_of.end() && a->second != b->second) {
        across[copy] = original;
      }
    }
  }
  return across;
}

void warn_of_copies(Cohort& cohort, const std::vector<Split>& splits) {
  const auto across = copies_across(cohort, splits);
  if (across.empty()) return;
  cohort.copies_across_parts = true;
  const auto& [copy, original] = *across.begin();
  cohort.warnings.push_back(
      concat(plural(across.size(), "exam"),
             " with the same features as one in another part of a split, such as '",
             cohort.exams()[copy].id, "' and '", cohort.exams()[original].id,
             "': what is held out was trained on, and the figures are too good; give such exams "
             "one patient, or leave the labels of all but one empty"));
}

void warn_of_unfinished(const std::vector<NamedCache>& caches, std::vector<std::string>& warnings) {
  for (const NamedCache& each : caches)
    if (!cache::part_record_paths(cache::locate(each.path)).empty())
      warnings.push_back(concat("parts of an extraction share the cache '", each.path.string(),
                                "' (.part-*.json), and exams may be missing; run "
                                "`coldframe cache finish` first"));
}

// A value per exam or per frame, as the run learnt it.
void require_same_rows(const Targets& targets, const std::vector<Target>& known) {
  for (std::size_t t = 0; t < known.size(); ++t) {
    if (targets[t].per_frame == known[t].per_frame) continue;
    const char* trained = known[t].per_frame ? "frame" : "exam";
    throw ConfigError(concat("the run learnt one value of '", known[t].name, "' per ", trained,
                             ", but this cache has one per ",
                             known[t].per_frame ? "exam" : "frame"));
  }
}

// Codes of a site or a device that are equal as numbers may have lost or gained zeros on the way
// through a spreadsheet.
void refuse_equal_numbers(const std::vector<std::string>& values, const std::string& name,
                          const std::string& option) {
  const auto two = find_equal_numbers(values);
  if (!two) return;
  throw ConfigError(concat("--", option, " ", name, ": the values '", values[two->first], "' and '",
                           values[two->second],
                           "' are equal as numbers; spell them alike if they "
                           "are one, or so that they differ more (in a CSV for --labels with the "
                           "columns exam and ",
                           name, ", or in the manifest)"));
}

}  // namespace

std::vector<std::string> Cohort::column(const std::string& name, const std::string& option) {
  if (!labels || !labels->column(name)) cache.require_agreed(name);
  std::vector<std::string> said;
  auto values = exam_column(cache.exams(), labels ? &*labels : nullptr, name, option, said);
  if (option != "covariates") refuse_equal_numbers(values, name, option);
  warn(said);
  return values;
}

void Cohort::warn(const std::vector<std::string>& said) {
  std::ranges::copy_if(said, std::back_inserter(warnings), [&](const std::string& one) {
    return std::ranges::find(warnings, one) == warnings.end();
  });
}

std::vector<std::string> Cohort::of_labeled(const std::vector<std::string>& values) const {
  std::vector<std::string> result;
  for (std::size_t exam : labeled()) result.push_back(values[exam]);
  return result;
}

Cohort open_cohort(const TargetOptions& options, const std::vector<Target>& known) {
  const std::vector<NamedCache> caches = named_caches(options.cache.string());
  Cohort cohort{SequenceReader(caches, cache::Detail::kWithoutPaths), {}, {}, {}, {}, {}, {}};
  warn_of_unfinished(caches, cohort.warnings);
  if (!options.arrangement.visits.empty() && options.exam_is_patient)
    throw ConfigError(
        "--visits joins the exams of a patient, and --exam-is-patient says that each has one; give "
        "one of them");
  const auto columns = cohort.cache.column_names();
  if (!options.arrangement.stream_column.empty() &&
      std::ranges::find(columns, kStreamsColumn) != columns.end())
    cohort.warnings.push_back(
        concat("the cache has a column '", kStreamsColumn,
               "' of its own, which stays: subgroups by it are not those of the streams that exams "
               "have; extract the exams without it for these"));
  cohort.warn(arrange(cohort.cache, options.arrangement, options.equal_numbers));
  if (!options.labels.empty()) cohort.labels = read_csv(options.labels);
  cohort.targets = read_targets(cohort.cache, cohort.labels, options, known);
  require_same_rows(cohort.targets, known);
  if (!options.arrangement.visits.empty() && cohort.targets.per_frame())
    throw ConfigError(concat("--visits joins exams, and '", cohort.targets.names(),
                             "' has a value per frame, of one exam; leave the option out"));
  for (const Labels& labels : cohort.targets) {
    const std::string exam = labels.per_frame ? cohort.cache.disputed_in(labels.name) : "";
    if (!exam.empty())
      throw DataError(concat("--streams: frames of one instant of exam '", exam,
                             "' have different values of '", labels.name,
                             "'; expected one, or an empty field for all but one of them"));
    cohort.notes.insert(cohort.notes.end(), labels.notes.begin(), labels.notes.end());
    cohort.warn(labels.warnings);
  }
  leave_out_empty_exams(cohort);
  std::vector<std::string> said;
  cohort.patients = patients_of(cohort.exams(), cohort.targets, options.exam_is_patient, said,
                                options.equal_numbers);
  cohort.patient_number = numbered(cohort.patients);
  cohort.warn(said);
  return cohort;
}

std::vector<Split> divide(Cohort& cohort, const TrainOptions& options, std::string& how) {
  SplitSet set = split_set(cohort, options, how);
  if (options.seeds > 1) how += concat(", ", options.seeds, " seeds averaged");
  cohort.warnings.insert(cohort.warnings.end(), set.warnings.begin(), set.warnings.end());
  warn_of_copies(cohort, set.splits);
  return std::move(set.splits);
}

}  // namespace coldframe::temporal
