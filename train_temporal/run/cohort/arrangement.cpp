#include "train_temporal/run/cohort/arrangement.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "common/text/timestamp.h"
#include "train_temporal/run/options/named_caches.h"
#include "train_temporal/splits/labels.h"

namespace coldframe::temporal {
namespace {

constexpr double kSecondsOfDay = 86400;

// The words stand for `train --visits` and for a run that was trained so.
[[noreturn]] void refuse_visits(const std::string& column, const std::string& why) {
  throw ConfigError(concat("visits are joined by '", column, "' (train --visits), ", why));
}

// Dates of one exam and days of another cannot be put in order.
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

// Tells how far streams meet, in exams and at instants; warns where they never do.
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

}  // namespace coldframe::temporal
