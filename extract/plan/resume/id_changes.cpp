#include "extract/plan/resume/id_changes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/text/spelling.h"
#include "common/text/text.h"
#include "extract/frames/input/source_digest.h"
#include "extract/plan/resume/exam_stamp.h"
#include "extract/plan/resume/slot_items.h"

namespace coldframe::extract {
namespace {

using cache::CacheReader;
using cache::ExamInfo;
using frames::ExamSpec;

// The same files, of which the same frames are taken.
std::string source_key(const std::string& files, const ExamStamp& stamp) {
  return concat(files, '|', stamp.ranges);
}

// The size of a file, or the number of several; equal for equal sources.
std::string extent_of(const ExamStamp& stamp) {
  return stamp.files.substr(0, stamp.files.find(':'));
}

// The files of an exam that could not be read when it was cached with these slots.
std::set<std::filesystem::path> files_lost_then(const ExamSpec& exam, const ExamInfo& cached) {
  std::set<std::filesystem::path> files;
  for (std::size_t slot = 0; slot < cached.frames(); ++slot) {
    const auto item = static_cast<std::size_t>(cached.frame_index[slot]);
    if (!cached.present[slot] && item < exam.items.size()) files.insert(exam.items[item].path);
  }
  return files;
}

// An exam's digests as they were before its lost files could be read: empty, or not at all.
class DigestsBefore {
 public:
  bool contain(const std::string& digest, const ExamSpec& exam, const ExamInfo& cached) {
    auto lost = files_lost_then(exam, cached);
    const auto [entry, is_new] = known_.try_emplace({&exam, lost});
    if (is_new)
      for (const auto lack : {frames::Lack::kEmpty, frames::Lack::kUnreadable})
        entry->second.push_back(frames::SourceDigest(exam, lost, lack).finish());
    return std::ranges::find(entry->second, digest) != entry->second.end();
  }

 private:
  using Files = std::set<std::filesystem::path>;
  std::map<std::pair<const ExamSpec*, Files>, std::vector<std::string>> known_;  // files are read
};

// True if the exam's files are the cached one's, but that those which were lost can be read now:
// the others have the same content. Names alone do not tell: another site's exams have the same.
bool is_mended(const ExamSpec& exam, const ExamStamp& now, const ExamInfo& cached,
               DigestsBefore& digests) {
  const ExamStamp before = parse_stamp(cached.source_stamp);
  return now.ranges == before.ranges && extent_of(now) == extent_of(before) &&
         one_file_per_frame(cached) && !has_other_patient(exam, cached) && !stop_requested() &&
         digests.contain(cached.source_digest, exam, cached);
}

// The cached exams whose sources are no longer where they were.
class LostSources {
 public:
  explicit LostSources(const CacheReader& cached) : cached_(cached) {}

  void add(std::size_t index) {
    const ExamInfo& exam = cached_.exams()[index];
    const ExamStamp stamp = parse_stamp(exam.source_stamp);
    if (exam.source_digest.empty() || stamp.files.empty()) return;
    by_stamp_.emplace(source_key(stamp.files, stamp), index);
    by_content_.emplace(source_key(exam.source_digest, stamp), index);
    extents_.insert(source_key(extent_of(stamp), stamp));
  }

  // One whose id the input does not have: it may have been mended under another.
  void add_absent(std::size_t index) {
    add(index);
    const auto& present = cached_.exams()[index].present;
    if (std::ranges::find(present, 0) != present.end()) with_lost_frames_.push_back(index);
  }

  // Each is found once.
  std::optional<std::size_t> take(const ExamSpec& exam, const ExamStamp& stamp) {
    if (const auto found = take_from(by_stamp_, source_key(stamp.files, stamp))) return found;
    if (extents_.contains(source_key(extent_of(stamp), stamp))) {
      const std::string key = source_key(frames::source_digest(exam), stamp);
      if (const auto found = take_from(by_content_, key)) return found;
    }
    return take_mended(exam, stamp);
  }

 private:
  using Places = std::unordered_multimap<std::string, std::size_t>;

  std::optional<std::size_t> take_from(const Places& places, const std::string& key) {
    const auto [first, last] = places.equal_range(key);
    std::optional<std::size_t> best;  // in the order of the cache
    for (auto place = first; place != last; ++place)
      if (!taken_.contains(place->second) && (!best || place->second < *best)) best = place->second;
    if (best) taken_.insert(*best);
    return best;
  }

  std::optional<std::size_t> take_mended(const ExamSpec& exam, const ExamStamp& stamp) {
    for (const std::size_t index : with_lost_frames_) {
      if (taken_.contains(index) || !is_mended(exam, stamp, cached_.exams()[index], digests_))
        continue;
      taken_.insert(index);
      return index;
    }
    return std::nullopt;
  }

  const CacheReader& cached_;
  Places by_stamp_, by_content_;
  std::vector<std::size_t> with_lost_frames_;
  DigestsBefore digests_;
  std::unordered_set<std::string> extents_;
  std::unordered_set<std::size_t> taken_;
};

bool content_changed(const ExamSpec& exam, const ExamStamp& now, const ExamInfo& cached) {
  return now.files != parse_stamp(cached.source_stamp).files &&
         frames::source_digest(exam) != cached.source_digest;
}

// An exam that is to be extracted.
struct Candidate {
  const ExamSpec* exam;
  std::size_t cached;              // under its id, or npos
  std::optional<ExamStamp> stamp;  // empty: it cannot be read
  bool changed = false;            // its content, since it was cached under its id
};

Candidate look_at(const ExamSpec& exam, const CacheReader& cached) {
  Candidate candidate{&exam, cached.find(exam.id), std::nullopt};
  const bool known = candidate.cached != CacheReader::npos;
  candidate.changed = known;
  try {
    candidate.stamp = stamp_of(exam);
    if (known)
      candidate.changed = content_changed(exam, *candidate.stamp, cached.exams()[candidate.cached]);
  } catch (const DataError&) {  // extraction says why
  }
  return candidate;
}

std::string first_file(const std::vector<std::string>& names) {
  const auto found =
      std::find_if(names.begin(), names.end(), [](const auto& name) { return !name.empty(); });
  return found == names.end() ? "" : *found;
}

std::vector<std::string> names_of(const ExamSpec& exam) {
  std::vector<std::string> names;
  for (const auto& item : exam.items) names.push_back(item.name);
  return names;
}

// Why the id names another exam now; "" when the same one's files changed.
std::string why_another(const ExamSpec& exam, const ExamInfo& cached) {
  if (has_other_patient(exam, cached))
    return concat("its files changed, and its patient from '", cached.patient, "' to '",
                  exam.patient, "'");
  if (exam.id_from_header || !has_other_files(exam, cached)) return "";
  return concat("all of its files are others: '", first_file(cached.frame_source), "' before, '",
                first_file(names_of(exam)), "' now");
}

}  // namespace

bool has_other_patient(const ExamSpec& exam, const ExamInfo& cached) {
  return !exam.patient.empty() && !cached.patient.empty() && !same_id(exam.patient, cached.patient);
}

bool has_other_files(const ExamSpec& exam, const ExamInfo& cached) {
  const auto names = names_of(exam);
  const std::unordered_set<std::string_view> now(names.begin(), names.end());
  const auto& before = cached.frame_source;
  return !first_file(before).empty() &&
         std::none_of(before.begin(), before.end(),
                      [&](const std::string& name) { return !name.empty() && now.contains(name); });
}

IdChanges find_id_changes(const std::vector<const ExamSpec*>& extracted,
                          const std::vector<std::size_t>& absent, const CacheReader& cached) {
  std::vector<Candidate> candidates;
  for (const ExamSpec* exam : extracted) candidates.push_back(look_at(*exam, cached));
  LostSources lost(cached);
  for (const std::size_t index : absent) lost.add_absent(index);
  for (const Candidate& each : candidates)
    if (each.changed) lost.add(each.cached);

  IdChanges changes;
  std::unordered_set<std::size_t> moved;
  std::unordered_set<const ExamSpec*> placed;
  for (const Candidate& each : candidates) {
    if (!each.stamp || (each.cached != CacheReader::npos && !each.changed)) continue;
    const auto from = lost.take(*each.exam, *each.stamp);
    if (!from) continue;
    changes.moves.push_back({*from, each.exam});
    moved.insert(*from);
    placed.insert(each.exam);
  }
  for (const Candidate& each : candidates) {
    if (!each.changed || moved.contains(each.cached) || placed.contains(each.exam)) continue;
    std::string reason = why_another(*each.exam, cached.exams()[each.cached]);
    if (!reason.empty()) changes.replaced.push_back({each.cached, std::move(reason)});
  }
  return changes;
}

std::vector<std::size_t> left_by_renaming(const std::vector<std::size_t>& absent,
                                          const std::vector<std::size_t>& present,
                                          const CacheReader& cached) {
  const auto key = [&](std::size_t index) {
    const ExamInfo& exam = cached.exams()[index];
    return source_key(exam.source_digest, parse_stamp(exam.source_stamp));
  };
  std::unordered_set<std::string> sources;
  for (const std::size_t index : present)
    if (!cached.exams()[index].source_digest.empty()) sources.insert(key(index));
  std::vector<std::size_t> left;
  for (const std::size_t index : absent)
    if (sources.contains(key(index))) left.push_back(index);
  return left;
}

std::string describe(const IdChanges& changes, bool rename, bool replace,
                     const CacheReader& cached) {
  constexpr std::size_t kShown = 20;
  std::vector<std::string> lines;
  if (!rename) {
    for (const auto& [from, exam] : changes.moves)
      lines.push_back(
          concat("exam '", cached.exams()[from].id, "' is now called '", exam->id, "'"));
  }
  if (!replace) {
    for (const auto& [index, reason] : changes.replaced)
      lines.push_back(concat("exam '", cached.exams()[index].id, "' is another one: ", reason));
  }
  if (lines.empty()) return "";
  const std::size_t count = lines.size();
  if (count > kShown) lines.resize(kShown);
  std::string text = concat("ids and sources no longer go together as in the cache, so labels ",
                            "joined by exam may go astray:\n  ", join(lines, "\n  "));
  if (count > kShown) text += concat("\n  … and ", count - kShown, " more");
  if (!rename && !changes.moves.empty())
    text += "\nGive --rename to keep the features under the new ids";
  if (!replace && !changes.replaced.empty())
    text += "\nGive --replace to extract again what is another exam now";
  return text + "\nOr give the input as it was, or another --out.";
}

}  // namespace coldframe::extract
