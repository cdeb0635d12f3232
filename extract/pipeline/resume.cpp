#include "extract/pipeline/resume.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cache/format/exam.h"
#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/files/file.h"
#include "common/files/fingerprint.h"
#include "common/text/spelling.h"
#include "common/text/text.h"
#include "extract/decode/exam_spec.h"
#include "extract/decode/source.h"
#include "extract/decode/source_file.h"
#include "extract/input/exam_list.h"
#include "extract/input/opened_exam.h"
#include "extract/input/select_frames.h"
#include "extract/pipeline/crop_plan.h"
#include "extract/pipeline/window_frames.h"
#include "extract/preprocess/preprocessing.h"

namespace coldframe::extract {

// Finds which row or file of the input each cached frame (of a window: its middle frame) came from.

// True if every slot is a file of its own, so that stated times are labels and no reader computed
// them.
bool one_file_per_frame(const cache::ExamInfo& cached);

// The item that each cached slot came from, where the files have the same content as then; empty
// when the input no longer tells. Clips that lie elsewhere than then are opened.
std::vector<std::size_t> items_of_slots(const frames::ExamSpec& exam, const PlanOptions& options,
                                        const cache::ExamInfo& cached);

// Tells whether the sources of a cached exam still are what its features were computed from.

// kMetadata: the same pixels, though names, times or the files' dates may differ. kStale: other
// frames or parts of the same files. kChanged: files of other content.
enum class Freshness { kUnreadable, kMetadata, kStale, kChanged };

struct Comparison {
  Freshness freshness;
  std::string stamp;       // of the sources as they are now
  std::string fault = {};  // kUnreadable: why
};

// Reads the files' content only when nothing cheaper decides.
Comparison compare_sources(const frames::ExamSpec& exam, const cache::ExamInfo& cached);

// Says what the cache and what the input have under the exam's id where these are two exams, to
// whose labels and predictions one id cannot answer: the content is another's, and so are the
// patient or the names of all files. "" where it is the same exam, whose files may have changed.
std::string clash_of_ids(const frames::ExamSpec& exam, Freshness freshness,
                         const cache::ExamInfo& cached);

namespace {

constexpr std::string_view kAsNamed = "as named", kHashes = "hashes",
                           kFolded = " (NFKC_Casefold)",  // of names in their plain spelling
    kNumbersAlike = ", zeros of numbers aside";

bool looks_hashed(const std::string& patient) {
  constexpr std::size_t kDigits = 16;
  return patient.size() == kDigits &&
         patient.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// "": there is no patient. A cache that was begun without any has no note.
std::string note_of(const cache::CacheReader& cached) {
  const std::string note = cached.recipe().note("patients");
  if (!note.empty()) return note;
  std::string found;
  for (const cache::ExamInfo& exam : cached.exams()) {
    if (exam.patient.empty()) continue;
    if (!looks_hashed(exam.patient)) return std::string(kAsNamed);
    found = kHashes;
  }
  return found;
}

std::string example_of(const cache::CacheReader& cached) {
  const auto first =
      std::ranges::find_if(cached.exams(), [](const auto& exam) { return !exam.patient.empty(); });
  return first == cached.exams().end() ? "" : concat(" (such as '", first->patient, "')");
}

}  // namespace

std::string patients_note(const frames::PatientNames& patients) {
  if (!patients.hashed) return "";
  if (!*patients.hashed) return std::string(kAsNamed);
  return concat(kHashes, " of salt ", patients.salt, kFolded,
                patients.numbers_alike ? kNumbersAlike : "");
}

void check_patients(const frames::PatientNames& patients, const cache::CacheReader& cached,
                    const std::filesystem::path& path) {
  const std::string before = note_of(cached), now = patients_note(patients);
  if (before.empty() || now.empty() || before == now) return;
  const bool same_kind = before.starts_with(kHashes) && now.starts_with(kHashes);
  if (same_kind && (before == kHashes || now == kHashes)) return;  // a salt that nobody noted
  const std::string cache = path.string();
  const std::string anew = "; or give another --out, to which all is extracted again";
  if (same_kind && (before == concat(now, kNumbersAlike) || now == concat(before, kNumbersAlike)))
    throw CacheError(concat("'", cache,
                            before.size() > now.size()
                                ? "' was made with --equal-numbers same: give it here, too"
                                : "' was made without --equal-numbers same: leave it out",
                            ", or one person would be two", anew));
  if (same_kind)
    throw CacheError(concat(
        "'", cache, "' stores patients as ", before, ", and this run as ", now,
        ": give the salt that the cache was made with (--patient-salt or COLDFRAME_PATIENT_SALT)",
        anew));
  if (before == kAsNamed)
    throw CacheError(concat("'", cache, "' stores patients as they are named", example_of(cached),
                            ", and this run as hashes: give --keep-patient-id to go on with their "
                            "names",
                            anew));
  throw CacheError(concat("'", cache, "' stores patients as hashes", example_of(cached),
                          ", and this run as they are named: leave out --keep-patient-id", anew));
}

namespace {

std::string digest_of(const std::string& text) {
  return to_hex(xxh3_128(std::as_bytes(std::span(text)))).substr(0, 16);
}

}  // namespace

std::string stamp_of_times(const frames::ExamSpec& exam) {
  std::string times;
  for (const auto& item : exam.items) {
    times += concat(std::bit_cast<std::uint64_t>(item.time_s), ';');
  }
  return digest_of(times);
}

std::string digest_of_names(const frames::ExamSpec& exam) {
  std::string names;
  for (const auto& item : exam.items) names += concat(item.name, '\n');
  return digest_of(names);
}

std::string names_part(const ExamStamp& stamp) {
  return stamp.files.substr(stamp.files.find('/') + 1);
}

ExamStamp stamp_of(const frames::ExamSpec& exam) {
  std::string ranges;
  for (const auto& item : exam.items) {
    ranges += concat(item.path.empty(), ':', item.first, '-', item.last, ';');
    if (item.crop) ranges += concat("crop ", preprocess::to_text(*item.crop), ';');
  }
  return {concat(frames::source_stamp(exam), '/', digest_of_names(exam)), digest_of(ranges),
          stamp_of_times(exam)};
}

std::string to_text(const ExamStamp& stamp) {
  return concat(stamp.files, '|', stamp.ranges, '|', stamp.times);
}

std::string exam_stamp(const frames::ExamSpec& exam) {
  return to_text(stamp_of(exam));
}

ExamStamp parse_stamp(const std::string& text) {
  const auto parts = split(text, '|');
  return parts.size() == 3 ? ExamStamp{parts[0], parts[1], parts[2]} : ExamStamp{};
}

namespace {

using cache::ExamInfo;
using frames::ExamSpec;

// The number of frames that are present.
std::size_t frames_held(const ExamInfo& exam) {
  return static_cast<std::size_t>(std::count(exam.present.begin(), exam.present.end(), 1));
}

// The ids of exams whose revision that holds lacks frames that could not be read. `cached` may be
// null, and must outlive what is returned.
std::unordered_set<std::string_view> with_lost_frames(const cache::CacheReader* cached) {
  std::unordered_set<std::string_view> exams;
  if (!cached) return exams;
  for (const cache::Failure& failure : cached->failures()) {
    const std::size_t index = cached->find(failure.exam);
    if (index != cache::CacheReader::npos && is_of_frames(failure, cached->exams()[index]))
      exams.insert(failure.exam);
  }
  return exams;
}

bool same_time(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

bool same_times(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_time);
}

// A table may have many thousand columns.
void note_column_changes(const ExamInfo& before, const ExamInfo& now,
                         std::vector<std::string>& changes) {
  const auto note = [&](const std::string& name, std::string_view from, std::string_view to) {
    if (from != to)
      changes.push_back(concat("exam '", now.id, "': ", name, " '", from, "' -> '", to, "'"));
  };
  std::unordered_map<std::string_view, std::string_view> values;
  for (const auto& column : now.columns) values.emplace(column.name, column.value);
  for (const auto& column : before.columns) {
    const auto found = values.find(column.name);
    note(column.name, column.value, found == values.end() ? "" : found->second);
    if (found != values.end()) values.erase(found);
  }
  for (const auto& column : now.columns)
    if (values.contains(column.name)) note(column.name, "", column.value);
}

// Compares columns by name; one that is not there has empty values.
bool same_frame_columns(const ExamInfo& before, const ExamInfo& now) {
  const auto covers = [](const ExamInfo& one, const ExamInfo& other) {
    return std::all_of(one.frame_columns.begin(), one.frame_columns.end(), [&](const auto& column) {
      const auto same_name = [&](const auto& candidate) { return candidate.name == column.name; };
      const auto found =
          std::find_if(other.frame_columns.begin(), other.frame_columns.end(), same_name);
      if (found != other.frame_columns.end()) return found->values == column.values;
      return std::all_of(column.values.begin(), column.values.end(),
                         [](const std::string& value) { return value.empty(); });
    });
  };
  return covers(before, now) && covers(now, before);
}

// Notes in `changes` what a person wants to know. Where a file lies, when it was touched, or a
// shifted position is an update, but no news.
bool metadata_differs(const ExamInfo& before, const ExamInfo& now,
                      std::vector<std::string>& changes) {
  const auto told = changes.size();
  if (before.patient != now.patient)
    changes.push_back(
        concat("exam '", now.id, "': patient '", before.patient, "' -> '", now.patient, "'"));
  note_column_changes(before, now, changes);
  if (!same_times(before.time_s, now.time_s) || !same_time(before.start_time, now.start_time) ||
      !same_time(before.elapsed_start, now.elapsed_start))
    changes.push_back(concat("exam '", now.id, "': times changed"));
  if (!same_frame_columns(before, now))
    changes.push_back(concat("exam '", now.id, "': columns of its frames changed"));
  return changes.size() > told || before.ordinal != now.ordinal ||
         before.source_stamp != now.source_stamp || before.frame_source != now.frame_source;
}

// Of a row of single files, as extraction gives it.
double time_of_row(const ExamSpec& exam, const ExamInfo& cached, std::size_t row,
                   const frames::ExamItem& middle) {
  const auto seen = seen_by_window(cached, row);
  if (!seen) return middle.time_s;
  return middle_time(exam.items.at(seen->first).time_s, exam.items.at(seen->second).time_s);
}

// The cached exam as the input now describes it; empty when only extraction can tell.
std::optional<ExamInfo> as_in_input(const frames::ExamList& input, const ExamSpec& exam,
                                    const PlanOptions& options, const Comparison& sources,
                                    const ExamInfo& cached) {
  const auto& [freshness, stamp, fault] = sources;
  if (freshness == Freshness::kStale || freshness == Freshness::kChanged) return std::nullopt;
  ExamInfo now = cached;
  take_stated(exam, now);
  now.frame_columns.clear();
  keep_crops(cached, now);
  keep_window_columns(cached, now);
  if (freshness == Freshness::kUnreadable) {
    log_warning(concat("exam '", exam.id, "': its cached features are kept, but its source cannot ",
                       "be read any more: ", fault));
    now.frame_columns = cached.frame_columns;
    return now;
  }
  const auto item_of_slot = items_of_slots(exam, options, cached);
  if (item_of_slot.empty()) return std::nullopt;
  now.source_stamp = stamp;
  auto stated = frame_columns_of(input, exam, item_of_slot);
  now.frame_columns.insert(now.frame_columns.begin(), stated.begin(), stated.end());
  for (std::size_t slot = 0; slot < now.frames(); ++slot) {
    const frames::ExamItem& item = exam.items[item_of_slot[slot]];
    now.frame_source[slot] = item.name;
    if (one_file_per_frame(cached)) now.time_s[slot] = time_of_row(exam, cached, slot, item);
  }
  return now;
}

// Exams that the input no longer names stay, after those that it does.
std::vector<ExamInfo> moved_behind(const cache::CacheReader& cached, std::size_t input_size,
                                   const std::vector<std::size_t>& absent) {
  std::vector<ExamInfo> moved;
  for (std::size_t i = 0; i < absent.size(); ++i) {
    ExamInfo exam = cached.exams()[absent[i]];
    if (exam.ordinal == input_size + i) continue;
    exam.ordinal = input_size + i;
    moved.push_back(std::move(exam));
  }
  return moved;
}

std::vector<std::size_t> absent_exams(const cache::CacheReader& cached,
                                      const frames::ExamList& input) {
  std::unordered_set<std::string_view> ids;
  for (const auto& exam : input.exams) ids.insert(exam.id);
  std::vector<std::size_t> absent;
  for (std::size_t i = 0; i < cached.exams().size(); ++i)
    if (!ids.contains(cached.exams()[i].id)) absent.push_back(i);
  return absent;
}

// `clashes`: a line for each id that names two exams. CacheError if there are some.
void require_one_exam_per_id(const std::vector<std::string>& clashes) {
  constexpr std::size_t kShownClashes = 20;
  if (clashes.empty()) return;
  const auto shown = std::span(clashes).first(std::min(kShownClashes, clashes.size()));
  std::string text = concat(
      "ids of the input name other exams than they do in the cache, so labels "
      "joined by id would go astray:\n  ",
      join(std::vector(shown.begin(), shown.end()), "\n  "));
  if (clashes.size() > kShownClashes)
    text += concat("\n  … and ", clashes.size() - kShownClashes, " more");
  throw CacheError(
      concat(text,
             "\nGive these exams other ids, take the cached ones out (coldframe cache prune "
             "CACHE --exams IDS.txt), or give another --out"));
}

}  // namespace

void take_stated(const ExamSpec& exam, ExamInfo& info) {
  info.id = exam.id;
  info.patient = exam.patient;
  info.ordinal = exam.ordinal;
  info.start_time = exam.start_time;
  info.elapsed_start = exam.elapsed_start;
  info.columns.clear();
  for (const auto& [name, value] : exam.columns) info.columns.push_back({name, value});
}

std::vector<cache::FrameColumn> frame_columns_of(const frames::ExamList& input,
                                                 const ExamSpec& exam,
                                                 const std::vector<std::size_t>& item_of_slot) {
  std::vector<cache::FrameColumn> columns;
  for (std::size_t c = 0; c < input.frame_columns.size(); ++c) {
    columns.push_back({input.frame_columns[c], {}});
    for (const auto item : item_of_slot)
      columns.back().values.push_back(exam.items[item].frame_columns.at(c));
  }
  return columns;
}

Plan plan_extraction(frames::ExamList input, const PlanOptions& options,
                     const cache::CacheReader* cached) {
  Plan plan;
  std::vector<ExamSpec> extract;
  std::vector<std::string> clashes;
  std::vector<std::size_t> absent;
  if (cached && options.mine.empty()) absent = absent_exams(*cached, input);
  const auto lost_frames = with_lost_frames(cached);
  for (std::size_t i = 0; i < input.exams.size() && !stop_requested(); ++i) {
    if (!options.mine.empty() && !options.mine[i]) continue;
    ExamSpec& exam = input.exams[i];
    exam.ordinal = i;
    exam.revision = cached ? cached->next_revision(exam.id) : 0;
    const std::size_t index = cached ? cached->find(exam.id) : cache::CacheReader::npos;
    if (index == cache::CacheReader::npos) {
      extract.push_back(std::move(exam));
      continue;
    }
    const ExamInfo& before = cached->exams()[index];
    exam.held = frames_held(before);
    const Comparison sources = compare_sources(exam, before);
    if (std::string clash = clash_of_ids(exam, sources.freshness, before); !clash.empty()) {
      clashes.push_back(std::move(clash));
      continue;
    }
    std::optional<ExamInfo> now = as_in_input(input, exam, options, sources, before);
    if (!now) {
      extract.push_back(std::move(exam));
      continue;
    }
    // A failure after the exam was cached: its source is whole again, which a new revision tells.
    const bool failed_since = exam.revision > before.revision + 1;
    const bool updated = metadata_differs(before, *now, plan.changes) || failed_since;
    const bool lost = lost_frames.contains(before.id);
    if (updated) plan.metadata.push_back(std::move(*now));
    if (!updated && !lost) ++plan.unchanged;
    if (!lost) continue;
    exam.revision += updated;
    exam.present = before.present;
    extract.push_back(std::move(exam));
  }
  require_one_exam_per_id(clashes);
  const std::size_t listed = input.exams.size();
  input.exams = std::move(extract);
  plan.extract = std::move(input);
  if (stop_requested()) return plan;
  plan.not_in_input = absent.size();
  if (absent.empty()) return plan;
  for (auto& exam : moved_behind(*cached, listed, absent)) plan.metadata.push_back(std::move(exam));
  return plan;
}

namespace {

using cache::ExamInfo;
using frames::ExamSpec;

bool one_slot_per_item(const ExamSpec& exam, const ExamInfo& cached) {
  return one_file_per_frame(cached) ||
         std::all_of(exam.items.begin(), exam.items.end(), [](const frames::ExamItem& item) {
           return item.path.empty() || item.first == item.last;
         });
}

// Replays the selection of `extract` over items of one frame each.
std::vector<std::size_t> selected_items(const ExamSpec& exam, const PlanOptions& options,
                                        const ExamInfo& cached) {
  std::vector<double> times;
  for (const auto& item : exam.items) times.push_back(item.time_s);
  try {
    std::vector<std::size_t> items(times.size());
    std::iota(items.begin(), items.end(), std::size_t{0});
    const ExamWindows windows(frames::select_windows(exam, items, times, options.selection),
                              options.steps);
    return holds_rows_of(cached, windows) ? windows.middles() : std::vector<std::size_t>();
  } catch (const DataError&) {  // the times no longer serve; extraction says why
    return {};
  }
}

// True if the cached slots are the given items', by name; a missing frame names its item.
bool are_items(const std::vector<std::size_t>& items, const ExamSpec& exam,
               const ExamInfo& cached) {
  for (std::size_t slot = 0; slot < items.size(); ++slot) {
    if (exam.items[items[slot]].name != cached.frame_source[slot]) return false;
    if (!cached.present[slot] && cached.frame_index[slot] != static_cast<std::int64_t>(items[slot]))
      return false;
  }
  return true;
}

// Steps of overlapping windows may have one middle frame.
bool share_frames(const ExamInfo& cached, std::size_t row) {
  const auto own = seen_by_window(cached, row), before = seen_by_window(cached, row - 1);
  return own && before && own->first <= before->second &&
         cached.frame_index[row] == cached.frame_index[row - 1];
}

// Clips: the item whose file and range hold the cached frame; a missing frame names its item, one
// without a file or whose file cannot be read.
std::vector<std::size_t> matching_items(const ExamSpec& exam, const ExamInfo& cached) {
  std::vector<std::size_t> item_of_slot;
  std::size_t item = 0;
  for (std::size_t slot = 0; slot < cached.frames(); ++slot) {
    const std::int64_t index = cached.frame_index[slot];
    if (!cached.present[slot]) item = static_cast<std::size_t>(index);
    const auto holds = [&](const frames::ExamItem& candidate) {
      if (!cached.present[slot]) return true;
      return candidate.name == cached.frame_source[slot] && index >= candidate.first &&
             (candidate.last < 0 || index <= candidate.last);
    };
    // Rows of one file with other crops: its frames begin again.
    const bool begins_again = slot > 0 && cached.present[slot] && cached.present[slot - 1] &&
                              item == item_of_slot.back() &&
                              index <= cached.frame_index[slot - 1] && !share_frames(cached, slot);
    if (begins_again) ++item;
    while (item < exam.items.size() && !holds(exam.items[item])) ++item;
    if (item >= exam.items.size()) return {};
    item_of_slot.push_back(item);
  }
  return item_of_slot;
}

// As extraction would choose them.
std::vector<std::size_t> opened_items(const ExamSpec& exam, const PlanOptions& options,
                                      const ExamInfo& cached) {
  std::vector<std::size_t> items;
  try {
    const frames::OpenedExam opened(exam, options.reader);
    const ExamWindows windows(opened.windows(options.selection), options.steps);
    if (!holds_rows_of(cached, windows)) return {};
    for (const std::size_t slot : windows.middles()) {
      const auto& place = opened.slots()[slot];
      if (items.size() >= cached.frames() ||
          (cached.present[items.size()] && place.index != cached.frame_index[items.size()]))
        return {};
      items.push_back(place.item);
    }
  } catch (const DataError&) {  // extraction says why
    return {};
  }
  return items;
}

bool has_other_times(const ExamSpec& exam, const ExamInfo& cached) {
  return stamp_of_times(exam) != parse_stamp(cached.source_stamp).times;
}

// A selection by time may fall on other items where the input states other times than before, or
// another zero; one of instants, where it states other streams.
bool may_choose_others(const ExamSpec& exam, const frames::FrameSelection& selection,
                       const ExamInfo& cached) {
  const auto has_stream = [](const frames::ExamItem& item) { return !item.stream.empty(); };
  if (selection.chooses() && std::ranges::any_of(exam.items, has_stream)) return true;
  const bool same_zero = exam.elapsed_start == cached.elapsed_start ||
                         (std::isnan(exam.elapsed_start) && std::isnan(cached.elapsed_start));
  return selection.follows_times() && (!same_zero || has_other_times(exam, cached));
}

}  // namespace

bool one_file_per_frame(const ExamInfo& cached) {
  return cached.source_kind == "image" || cached.source_kind == "images";
}

std::vector<std::size_t> items_of_slots(const ExamSpec& exam, const PlanOptions& options,
                                        const ExamInfo& cached) {
  const frames::FrameSelection& selection = options.selection;
  if (options.of_volumes) return std::vector<std::size_t>(cached.frames(), 0);
  // A clip's own times are not known here, nor have they changed.
  const bool by_item =
      one_file_per_frame(cached) || (one_slot_per_item(exam, cached) && !selection.follows_times());
  const bool may_differ = may_choose_others(exam, selection, cached);
  // Windows by time may have other frames between the same first and last ones.
  if (may_differ && selection.windows.follows_times() && has_other_times(exam, cached)) return {};
  const bool same_names = names_part(parse_stamp(cached.source_stamp)) == digest_of_names(exam);
  std::vector<std::size_t> items;
  if (by_item) {
    items = selected_items(exam, options, cached);
  } else if (same_names && !may_differ) {
    items = matching_items(exam, cached);
  } else {
    items = opened_items(exam, options, cached);
  }
  if (items.size() != cached.frames()) return {};
  return by_item && may_differ && !are_items(items, exam, cached) ? std::vector<std::size_t>()
                                                                  : items;
}

namespace {

// Says why a file that gave a cached frame cannot be opened any more; "" where all can.
std::string fault_of_sources(const frames::ExamSpec& exam, const cache::ExamInfo& cached) {
  std::unordered_set<std::string_view> sources;
  for (std::size_t slot = 0; slot < cached.frames(); ++slot)
    if (cached.present[slot]) sources.insert(cached.frame_source[slot]);
  try {
    for (const auto& item : exam.items)
      if (sources.erase(item.name) > 0) const InputFile opened(item.path);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

bool has_other_patient(const frames::ExamSpec& exam, const cache::ExamInfo& cached) {
  return !exam.patient.empty() && !cached.patient.empty() && !same_id(exam.patient, cached.patient);
}

// The first file of an exam; missing frames have none.
std::string_view first_of(const auto& names) {
  const auto found = std::ranges::find_if(names, [](const auto& name) { return !name.empty(); });
  return found == names.end() ? std::string_view() : std::string_view(*found);
}

using Names = std::unordered_set<std::string_view>;

// "'a.png' and 2 more files of patient 'P1'"
std::string description(const Names& files, std::string_view first, const std::string& patient) {
  std::string text = files.empty() ? "no file" : concat("'", first, "'");
  if (files.size() > 1) text += concat(" and ", plural(files.size() - 1, "more file"));
  return patient.empty() ? text : concat(text, " of patient '", patient, "'");
}

}  // namespace

Comparison compare_sources(const frames::ExamSpec& exam, const cache::ExamInfo& cached) {
  const ExamStamp before = parse_stamp(cached.source_stamp), now = stamp_of(exam);
  const bool same_frames =
      now.ranges == before.ranges && (now.times == before.times || one_file_per_frame(cached));
  const bool same_files = now.files == before.files;
  if (same_frames && same_files) return {Freshness::kMetadata, to_text(now)};
  if (std::string fault = fault_of_sources(exam, cached); !fault.empty())
    return {Freshness::kUnreadable, "", std::move(fault)};
  if (!same_files && frames::source_digest(exam) != cached.source_digest)
    return {Freshness::kChanged, to_text(now)};
  return {same_frames ? Freshness::kMetadata : Freshness::kStale, to_text(now)};
}

std::string clash_of_ids(const frames::ExamSpec& exam, Freshness freshness,
                         const cache::ExamInfo& cached) {
  if (freshness != Freshness::kChanged && freshness != Freshness::kUnreadable) return "";
  std::vector<std::string_view> names;
  for (const frames::ExamItem& item : exam.items) names.push_back(item.name);
  Names now(names.begin(), names.end()),
      before(cached.frame_source.begin(), cached.frame_source.end());
  for (Names* files : {&now, &before}) files->erase("");  // of missing frames
  const bool other_patient = has_other_patient(exam, cached);
  const auto is_there = [&](std::string_view name) { return now.contains(name); };
  const bool other_files = !before.empty() && std::ranges::none_of(before, is_there);
  // Files that cannot be read may be the same ones: only names and patient together speak.
  const bool clashes = freshness == Freshness::kUnreadable
                           ? other_patient && other_files
                           : other_patient || (other_files && !exam.id_from_header);
  if (!clashes) return "";
  return concat("exam '", cached.id, "': the cache has ",
                description(before, first_of(cached.frame_source), cached.patient), ", the input ",
                description(now, first_of(names), exam.patient));
}

}  // namespace coldframe::extract
