#include "extract/decode/dicom/series.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <set>
#include <span>

#include "common/cli/error.h"
#include "common/files/fingerprint.h"
#include "common/text/spelling.h"
#include "common/text/text.h"
#include "extract/decode/dicom/data_set.h"
#include "extract/decode/dicom/frame_data.h"
#include "extract/decode/dicom/times.h"
#include "extract/decode/exam_spec.h"
#include "extract/decode/frame.h"
#include "extract/decode/source_file.h"

namespace coldframe::frames::dicom {

namespace {

std::int64_t count_of(DcmItem& root, const DcmTagKey& tag) {
  const double number = number_of(root, tag, 0);
  return number >= 0 && number < 1e9 ? static_cast<std::int64_t>(number) : 0;
}

// By number, then by offset.
void sort_parts(std::vector<ExamItem>& items, std::vector<ConcatenationPart>& parts) {
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) {
    return std::pair(parts[i].number, parts[i].offset.value_or(0));
  });
  std::vector<ExamItem> sorted_items;
  std::vector<ConcatenationPart> sorted;
  for (const std::size_t i : order) {
    sorted_items.push_back(std::move(items[i]));
    sorted.push_back(std::move(parts[i]));
  }
  items = std::move(sorted_items);
  parts = std::move(sorted);
}

// By what functional groups state of all frames; false where they tell nothing.
bool order_by_facts(std::vector<ExamItem>& items, const std::vector<ConcatenationPart>& parts,
                    OrderBasis& basis) {
  std::vector<GroupFacts> facts;
  std::vector<std::pair<std::size_t, std::int64_t>> frames;  // part, place there
  for (std::size_t part = 0; part < parts.size(); ++part) {
    if (parts[part].facts.empty()) return false;
    for (std::int64_t frame = 0; frame < parts[part].frames; ++frame) {
      frames.emplace_back(part, frame);
      facts.push_back(parts[part].facts[static_cast<std::size_t>(frame)]);
    }
  }
  FrameOrder order = order_groups(facts);
  if (order.basis.order.empty()) return false;
  std::vector<ExamItem> sorted;
  for (std::size_t i = 0; i < order.order.size(); ++i) {
    const auto& [part, frame] = frames[order.order[i]];
    ExamItem item = items[part];
    item.first = item.last = frame;
    item.time_s = order.seconds[i];
    sorted.push_back(std::move(item));
  }
  items = std::move(sorted);
  basis = std::move(order.basis);
  return true;
}

// Frames that are regular are so over a gap as well; others have times where no part is missing and
// each states the time before its first frame.
void set_cine_times(std::vector<ExamItem>& items, const std::vector<ConcatenationPart>& parts,
                    OrderBasis& basis) {
  std::vector<double> steps;
  bool whole = true;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].steps.empty()) return;
    whole = whole && parts[i].offset.value_or(std::ssize(steps)) == std::ssize(steps) &&
            (i == 0 || parts[i].steps[0] > 0);
    steps.insert(steps.end(), parts[i].steps.begin(), parts[i].steps.end());
  }
  const bool regular = std::ranges::all_of(steps, [&](double step) { return step == steps[0]; });
  if (!regular && !whole) return;
  double time = 0;
  std::int64_t at = parts[0].offset.value_or(0);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::int64_t offset = parts[i].offset.value_or(at);
    if (regular)
      time = static_cast<double>(offset - parts[0].offset.value_or(0)) * steps[0];
    else if (i > 0)
      time += parts[i].steps[0];
    items[i].time_s = time;
    time = std::accumulate(parts[i].steps.begin() + 1, parts[i].steps.end(), time);
    at = offset + parts[i].frames;
  }
  basis.times = "frame time";
}

}  // namespace

std::optional<ConcatenationPart> read_part(const DataSet& data) {
  DcmItem& root = data.root();
  ConcatenationPart part;
  part.whole = text_of(root, DCM_SOPInstanceUIDOfConcatenationSource);
  if (part.whole.empty()) part.whole = text_of(root, DCM_ConcatenationUID);
  part.of = count_of(root, DCM_InConcatenationTotalNumber);
  if (part.whole.empty() || part.of == 1) return std::nullopt;
  part.number = count_of(root, DCM_InConcatenationNumber);
  if (!numbers_of(root, DCM_ConcatenationFrameOffsetNumber).empty())
    part.offset = count_of(root, DCM_ConcatenationFrameOffsetNumber);
  part.frames = held_frames(data);
  part.steps = cine_steps(root, part.frames);
  const std::vector<GroupFacts> facts = group_facts(data, part.frames);
  if (part.steps.empty() && !facts.empty())
    for (const std::int64_t stored : frame_times(data, part.frames).stored)
      part.facts.push_back(facts[static_cast<std::size_t>(stored)]);
  return part;
}

std::string missing_parts(const std::vector<ConcatenationPart>& parts) {
  std::int64_t all = 0;
  for (const ConcatenationPart& part : parts) all = std::max({all, part.of, part.number});
  if (std::ssize(parts) >= all) return "";
  return concat(parts.size(), " of the ", all, " files of its concatenation are there");
}

OrderBasis join_parts(std::vector<ExamItem>& items, std::vector<ConcatenationPart>& parts) {
  sort_parts(items, parts);
  OrderBasis basis{.order = "concatenation"};
  if (!order_by_facts(items, parts, basis)) set_cine_times(items, parts, basis);
  basis.unusual = true;
  return basis;
}

namespace {

double slice_position(DcmItem& root) {
  const auto place = numbers_of(root, DCM_ImagePositionPatient);
  const auto axes = numbers_of(root, DCM_ImageOrientationPatient);
  return place.size() == 3 && axes.size() == 6 ? along_normal(place, axes) : kNotStated;
}

// What the header states of a file's one frame, or an enhanced object's functional groups.
void read_group_keys(const DataSet& data, SeriesKeys& keys) {
  keys.temporal_position = number_of(data.root(), DCM_TemporalPositionIdentifier, kNotStated);
  keys.trigger = number_of(data.root(), DCM_TriggerTime, kNotStated) / 1e3;
  const std::vector<GroupFacts> groups = group_facts(data, 1);
  if (groups.empty()) return;
  const auto complete = [](double& key, double fact) { key = std::isnan(key) ? fact : key; };
  complete(keys.temporal_position, groups[0].temporal_position);
  complete(keys.trigger, groups[0].trigger);
  if (const auto plane = std::span(groups[0].plane); !plane.empty())
    complete(keys.position, along_normal(plane, plane.subspan(3)));
}

SeriesKeys read_keys(const DataSet& data) {
  DcmItem& root = data.root();
  const double number = number_of(root, DCM_SeriesNumber, kNotStated);
  const ImageTime moment = acquisition(root), made = content(root);
  SeriesKeys keys{std::isnan(number) ? "" : fixed(number, 0),
                  moment.seconds,
                  slice_position(root),
                  number_of(root, DCM_InstanceNumber, kNotStated),
                  moment.dated,
                  moment.acquired,
                  text_of(root, DCM_SOPInstanceUID),
                  text_of(root, DCM_Modality),
                  text_of(root, DCM_PatientID)};
  keys.made = made.seconds;
  keys.made_dated = made.dated;
  read_group_keys(data, keys);
  return keys;
}

template <typename T>
void reorder(std::vector<T>& list, const std::vector<std::size_t>& order) {
  std::vector<T> sorted;
  for (const std::size_t index : order) sorted.push_back(std::move(list[index]));
  list = std::move(sorted);
}

// Times of day become comparable. A pause of more than half a day is the rest of the day: what
// comes before it was acquired after midnight.
void settle_times_of_day(std::vector<SeriesKeys>& keys, double SeriesKeys::*seconds,
                         bool SeriesKeys::*dated, bool one_series) {
  const bool usable = one_series && std::ranges::none_of(keys, dated);
  std::vector<double> times;
  for (SeriesKeys& each : keys) {
    if (!(each.*dated) && !usable) each.*seconds = kNotStated;
    times.push_back(each.*seconds);
  }
  if (!usable || std::ranges::any_of(times, [](double time) { return std::isnan(time); })) return;
  std::sort(times.begin(), times.end());
  for (std::size_t i = 1; i < times.size(); ++i) {
    if (times[i] - times[i - 1] <= kDay / 2) continue;
    for (SeriesKeys& each : keys) each.*seconds += each.*seconds < times[i] ? kDay : 0;
  }
}

std::vector<FrameFacts> facts_of(const std::vector<SeriesKeys>& keys, bool one_series) {
  const bool acquired = std::ranges::all_of(keys, &SeriesKeys::acquired);
  std::vector<FrameFacts> facts;
  for (const SeriesKeys& each : keys) {
    FrameFacts known{.position = each.position, .number = each.instance};
    if (one_series) {  // series of a study share no zero but the clock's
      known.temporal_position = each.temporal_position;
      known.trigger = each.trigger;
      known.made = acquired ? each.made : each.time;
    }
    if (acquired || !one_series) known.time = each.time;
    facts.push_back(known);
  }
  return facts;
}

}  // namespace

bool SeriesKeys::is_copy_of(const SeriesKeys& other) const {
  const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  return !uid.empty() && uid == other.uid && same(time, other.time) &&
         same(position, other.position) && same(instance, other.instance) &&
         same(trigger, other.trigger) && same(temporal_position, other.temporal_position);
}

OrderBasis order_series(std::vector<ExamItem>& items, std::vector<SeriesKeys> keys,
                        bool one_series) {
  settle_times_of_day(keys, &SeriesKeys::time, &SeriesKeys::dated, one_series);
  settle_times_of_day(keys, &SeriesKeys::made, &SeriesKeys::made_dated, one_series);
  const auto sort = [&](const std::vector<std::size_t>& order) {
    reorder(items, order);
    reorder(keys, order);
  };
  FrameOrder found = order_frames(facts_of(keys, one_series), one_series);
  if (found.basis.order.empty()) {
    return items.size() > 1 ? by_names() : OrderBasis();
  }
  // Where keys tell only some apart, UIDs do the rest, for files may come in any order. Where they
  // tell nothing, the files' names, by which they came, say more than UIDs.
  std::vector<std::size_t> by_uid(items.size());
  std::iota(by_uid.begin(), by_uid.end(), std::size_t{0});
  std::ranges::stable_sort(by_uid, natural_less, [&](std::size_t i) { return keys[i].uid; });
  sort(by_uid);
  found = order_frames(facts_of(keys, one_series), one_series);
  sort(found.order);
  for (std::size_t i = 0; i < items.size(); ++i) items[i].time_s = found.seconds[i];
  return std::move(found.basis);
}

namespace {

// The value that all files agree on, else "": a name must not depend on which of them comes first.
std::string common_value(const std::vector<SeriesKeys>& keys, std::string SeriesKeys::*value) {
  const auto same = [&](const SeriesKeys& each) { return each.*value == keys.front().*value; };
  return std::all_of(keys.begin(), keys.end(), same) ? keys.front().*value : "";
}

// Two files that state different patients; empty when there are none.
std::vector<std::size_t> different_patients(const std::vector<SeriesKeys>& keys) {
  std::size_t first = keys.size();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].patient.empty()) continue;
    if (first == keys.size()) first = i;
    if (!spelt_alike(keys[i].patient, keys[first].patient)) return {first, i};
  }
  return {};
}

constexpr std::size_t kMaxPart = 16;  // of a code string (PS3.5 table 6.2-1)

// A part that is fit for an id; "" for one that somebody filled with something else.
std::string plain(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
  };
  const bool usable =
      !text.empty() && text.size() <= kMaxPart && std::all_of(text.begin(), text.end(), fits);
  return usable ? concat(text, "-") : "";
}

// An exam's name comes from its header alone. Moving the files or adding other exams does not
// change it. "US-7-3fa91c02be": modality and number of the series, where they are known and plain,
// then the first `digits` of the UID's SHA-256. Patients, dates and the UID itself stay out of it.
std::string exam_id(std::string_view modality, std::string_view series_number, std::string_view uid,
                    std::size_t digits) {
  const std::string kind = plain(modality);
  return concat(kind.empty() ? "dicom-" : kind, plain(series_number),
                sha256_hex(uid).substr(0, digits));
}

// "study-3fa91c02be"
std::string study_id(std::string_view uid, std::size_t digits) {
  return concat("study-", sha256_hex(uid).substr(0, digits));
}

std::string content_of(const ExamItem& item) {
  ExamSpec exam;
  exam.items.push_back(item);
  return source_digest(exam);
}

std::string copy_of(const ExamItem& other, const std::string& uid) {
  return concat("it is a copy of '", other.name, "': both are the image (SOPInstanceUID) ", uid);
}

}  // namespace

SeriesList::Verdict SeriesList::add(const ExamItem& item, const SourceFile& file,
                                    std::string& reason) {
  try {
    return take(item, file, reason);
  } catch (const DataError&) {
    return Verdict::kNoName;
  }
}

SeriesList::Verdict SeriesList::take(const ExamItem& item, const SourceFile& file,
                                     std::string& reason) {
  const DataSet data(file.open());
  DcmItem& root = data.root();
  if (const std::string other = describe_other_object(data, Judge::kByClassAndModality);
      !other.empty()) {
    reason = concat("it is ", other);
    return Verdict::kNoImage;
  }
  const bool by_study = grouping_ == DicomGrouping::kStudy;
  std::string uid = text_of(root, by_study ? DCM_StudyInstanceUID : DCM_SeriesInstanceUID);
  std::optional<ConcatenationPart> part = read_part(data);
  const bool video = data.syntax().coding == Coding::kVideo;
  Kind kind = uid.empty() || video || held_frames(data) > 1 ? Kind::kClip : Kind::kImages;
  SeriesKeys keys = read_keys(data);
  if (kind == Kind::kClip) uid = keys.uid;
  if (part) uid = part->whole, kind = Kind::kParts;
  if (uid.empty()) return Verdict::kNoName;
  const auto [entry, is_new] = index_.try_emplace({kind, uid}, series_.size());
  if (is_new) series_.push_back({uid, kind, is_parametric_map(data), {}, {}, {}, {}});
  Series& series = series_[entry->second];
  if (kind == Kind::kImages) return add_image(series, item, std::move(keys), reason);
  const Verdict verdict = add_clip(series, item, std::move(keys), reason);
  if (verdict == Verdict::kTaken && part) series.parts.push_back(std::move(*part));
  return verdict;
}

// Software that removes identities may give all clips one UID, and their headers then tell them no
// more apart: only what is equal to the last byte is a copy.
SeriesList::Verdict SeriesList::add_clip(Series& clip, const ExamItem& item, SeriesKeys keys,
                                         std::string& reason) {
  if (clip.items.size() == 1) clip.places.emplace(content_of(clip.items.front()), 0);
  if (!clip.items.empty()) {
    const std::string content = content_of(item);
    if (const auto other = clip.places.find(content); other != clip.places.end()) {
      reason = copy_of(clip.items[other->second], clip.uid);
      return Verdict::kNoImage;
    }
    clip.places.emplace(content, clip.items.size());
  }
  clip.items.push_back(item);
  clip.keys.push_back(std::move(keys));
  return Verdict::kTaken;
}

SeriesList::Verdict SeriesList::add_image(Series& series, const ExamItem& item, SeriesKeys keys,
                                          std::string& reason) {
  const auto [first, last] = series.places.equal_range(keys.uid);
  for (auto other = first; other != last; ++other) {
    if (!keys.is_copy_of(series.keys[other->second])) continue;
    reason = copy_of(series.items[other->second], keys.uid);
    return Verdict::kNoImage;
  }
  if (!keys.uid.empty()) series.places.emplace(keys.uid, series.items.size());
  series.items.push_back(item);
  series.keys.push_back(std::move(keys));
  return Verdict::kTaken;
}

std::string SeriesList::name(const Series& series, std::size_t digits) const {
  if (grouping_ == DicomGrouping::kStudy && series.kind == Kind::kImages)
    return study_id(series.uid, digits);
  return exam_id(common_value(series.keys, &SeriesKeys::modality),
                 common_value(series.keys, &SeriesKeys::series_number), series.uid, digits);
}

OrderBasis SeriesList::order(Series& series, const std::string& exam,
                             std::vector<std::string>& warnings) {
  if (series.kind == Kind::kImages)
    return order_series(series.items, std::move(series.keys), grouping_ == DicomGrouping::kSeries);
  if (series.kind == Kind::kClip) return {};  // the file's own
  if (const std::string missing = missing_parts(series.parts); !missing.empty())
    warnings.push_back(concat("exam '", exam, "': ", missing));
  return join_parts(series.items, series.parts);
}

SeriesList::Exams SeriesList::take_exams() {
  constexpr std::size_t kDigits = 10, kAllDigits = 64;
  std::map<std::string, int> uses;
  for (const Series& series : series_) ++uses[name(series, kDigits)];
  Exams result;
  const bool any_images = !std::ranges::all_of(series_, &Series::is_map);
  for (Series& series : series_) {
    if (series.is_map && any_images) {
      result.warnings.push_back(concat(
          "passed over '", series.items[0].name,
          "': it is a parametric map beside images; name its exam in a manifest to read it"));
      continue;
    }
    if (series.kind == Kind::kClip && series.items.size() > 1) {
      std::move(series.items.begin(), series.items.end(), std::back_inserter(result.unnamed));
      continue;
    }
    if (const auto two = different_patients(series.keys); !two.empty()) {
      result.warnings.push_back(
          concat("passed over ", plural(series.items.size(), "file"), ", such as '",
                 series.items[two[0]].name, "' and '", series.items[two[1]].name,
                 "': they are of different patients, but state the same ",
                 grouping_ == DicomGrouping::kStudy ? "StudyInstanceUID" : "SeriesInstanceUID",
                 "; name their exams in a manifest"));
      continue;
    }
    ExamSpec exam;
    exam.id = name(series, kDigits);
    if (uses[exam.id] > 1) exam.id = name(series, kAllDigits);
    exam.id_from_header = true;
    exam.basis = order(series, exam.id, result.warnings);
    exam.items = std::move(series.items);
    result.exams.push_back(std::move(exam));
  }
  series_.clear();
  index_.clear();
  return result;
}

}  // namespace coldframe::frames::dicom
