#include "train_temporal/data/sequence_reader.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <set>
#include <unordered_map>
#include <utility>

#include "common/cli/error.h"
#include "common/files/fingerprint.h"
#include "common/text/spelling.h"
#include "common/text/text.h"
#include "common/text/timestamp.h"

namespace coldframe::temporal {

namespace {

constexpr std::size_t kExamsOfABlock = 32;  // of a scan over several caches

bool same_value(const std::string& a, const std::string& b) {
  double x = 0, y = 0;
  return a == b || (parse_double(trim(a), x) && parse_double(trim(b), y) && x == y);
}

template <typename Value, typename Values>
void extend(std::vector<Value>& to, const Values& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Gives what all caches have alike, or the part of each under its name.
Json joined(const std::vector<Json>& parts, const std::vector<std::string>& names) {
  if (std::ranges::all_of(parts, [&](const Json& part) { return part == parts.front(); }))
    return parts.front();
  Json json;
  for (std::size_t c = 0; c < parts.size(); ++c) json[kRecipesOfStreams][names[c]] = parts[c];
  return json;
}

// A cache that says itself whose stream its frames are has to say the same.
void require_own_stream(const cache::ExamInfo& part, const std::string& stream) {
  const cache::FrameColumn* own = frame_column(part, kStreamColumn);
  if (own == nullptr) return;
  for (const std::string& value : own->values)
    if (!value.empty() && value != stream)
      throw DataError(concat("the cache that is given as ", stream, " has frames whose column '",
                             kStreamColumn, "' says ", value, " (exam '", part.id,
                             "'); a cache of several streams is given alone, with --streams ",
                             kStreamColumn));
}

void append_frame_columns(cache::ExamInfo& exam, const cache::ExamInfo& part,
                          const std::string& stream) {
  require_own_stream(part, stream);
  const std::size_t before = exam.frames();
  std::vector<cache::FrameColumn> added = part.frame_columns;
  std::erase_if(added, [](const cache::FrameColumn& one) { return one.name == kStreamColumn; });
  added.push_back({kStreamColumn, std::vector<std::string>(part.frames(), stream)});
  for (const cache::FrameColumn& column : added) {
    auto known = std::ranges::find(exam.frame_columns, column.name, &cache::FrameColumn::name);
    if (known == exam.frame_columns.end())
      known = exam.frame_columns.insert(known, {column.name, {}});
    known->values.resize(before);
    extend(known->values, column.values);
  }
  for (cache::FrameColumn& column : exam.frame_columns)
    column.values.resize(before + part.frames());
}

using CacheExam = StackedCaches::CacheExam;

class Stacker {
 public:
  Stacker(std::span<const cache::CacheReader> caches, std::span<const NamedCache> named)
      : caches_(caches), named_(named) {}
  StackedCaches run();

 private:
  void require_same_rows() const;
  void join_recipes();
  void match_exams();
  cache::ExamInfo stacked(const std::vector<CacheExam>& parts);
  // `before`: the exam's parts that it has taken up.
  void take_patient(const CacheExam& part, std::span<const CacheExam> before,
                    cache::ExamInfo& exam) const;
  void take_columns(const CacheExam& part, std::span<const CacheExam> before,
                    cache::ExamInfo& exam);
  void take_frames(const CacheExam& part, cache::ExamInfo& exam) const;
  void place_in_time(cache::ExamInfo& exam, std::span<const CacheExam> parts) const;
  std::vector<std::uint64_t> checksums_of(std::span<const CacheExam> parts) const;
  std::string name_of(std::size_t cache) const {  // in messages
    return concat("'", named_[cache].path.string(), "' (", named_[cache].name, ")");
  }
  const cache::ExamInfo& info(const CacheExam& part) const {
    return caches_[part.cache].exams()[part.exam];
  }

  std::span<const cache::CacheReader> caches_;
  std::span<const NamedCache> named_;
  StackedCaches stacked_;
};

void Stacker::require_same_rows() const {
  for (std::size_t c = 1; c < caches_.size(); ++c) {
    const cache::CacheReader& other = caches_[c];
    const auto compare = [&](const char* what, const auto& a, const auto& b, const char* advice) {
      if (a == b) return;
      throw CacheError(
          concat("streams are merged of caches whose features are alike in width, "
                 "storage and views, but ",
                 name_of(0), " has ", what, " ", a, " and ", name_of(c), " ", b, "; ", advice));
    };
    compare("features of width", caches_.front().dimension(), other.dimension(),
            "extract one of them again with a backbone of the other's width");
    compare("storage", dtype_name(caches_.front().storage()), dtype_name(other.storage()),
            "extract one of them again with the other's --store");
    compare("the views", join(caches_.front().views(), ", "), join(other.views(), ", "),
            "extract one of them again with the other's --views");
  }
}

void Stacker::join_recipes() {
  std::vector<Json> features, storage;
  std::set<std::string> licenses;
  for (const cache::CacheReader& one : caches_) {
    features.push_back(one.recipe().features);
    storage.push_back(one.recipe().storage);
    extend(stacked_.failures, one.failures());
    if (const std::string license = one.recipe().note(cache::kWeightsLicense); !license.empty())
      licenses.insert(license);
  }
  stacked_.recipe = {joined(features, stacked_.names), joined(storage, stacked_.names),
                     Json::object()};
  if (!licenses.empty())
    stacked_.recipe.notes[cache::kWeightsLicense] = join({licenses.begin(), licenses.end()}, ", ");
}

void Stacker::match_exams() {
  std::unordered_map<std::string, std::size_t> index;
  for (std::size_t c = 0; c < caches_.size(); ++c) {
    for (std::size_t e = 0; e < caches_[c].exams().size(); ++e) {
      const auto [known, added] = index.emplace(caches_[c].exams()[e].id, stacked_.parts.size());
      if (added) stacked_.parts.emplace_back();
      stacked_.parts[known->second].push_back({c, e});
    }
  }
}

cache::ExamInfo Stacker::stacked(const std::vector<CacheExam>& parts) {
  cache::ExamInfo exam;
  exam.id = info(parts.front()).id;
  exam.revision = info(parts.front()).revision;
  exam.elapsed_start = info(parts.front()).elapsed_start;  // of all parts, or of none
  for (const CacheExam& part : parts) {
    exam.start_time = std::fmin(exam.start_time, info(part).start_time);
    const double elapsed = info(part).elapsed_start;
    if (std::isnan(elapsed) || elapsed < exam.elapsed_start) exam.elapsed_start = elapsed;
  }
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const auto before = std::span(parts).first(p);
    take_patient(parts[p], before, exam);
    take_columns(parts[p], before, exam);
    take_frames(parts[p], exam);
  }
  place_in_time(exam, parts);
  return exam;
}

void Stacker::take_patient(const CacheExam& part, std::span<const CacheExam> before,
                           cache::ExamInfo& exam) const {
  const std::string& patient = info(part).patient;
  if (exam.patient.empty()) exam.patient = patient;
  if (patient.empty() || same_id(patient, exam.patient)) return;
  const auto other = std::ranges::find_if(
      before, [&](const CacheExam& one) { return !info(one).patient.empty(); });
  throw DataError(concat("exam '", exam.id, "' is of patient '", patient, "' in ",
                         name_of(part.cache), ", and of '", exam.patient, "' in ",
                         name_of(other->cache),
                         "; caches of streams are matched by the ids of exams, which have to be "
                         "the same exam's"));
}

void Stacker::take_columns(const CacheExam& part, std::span<const CacheExam> before,
                           cache::ExamInfo& exam) {
  for (const auto& [name, value] : info(part).columns) {
    const auto known = std::ranges::find(exam.columns, name, &cache::ExamColumn::name);
    if (known == exam.columns.end()) {
      exam.columns.push_back({name, value});
    } else if (known->value.empty()) {
      known->value = value;
    } else if (!value.empty() && !same_value(known->value, value)) {
      const auto other = std::ranges::find_if(
          before, [&](const CacheExam& one) { return !column_value(info(one), name).empty(); });
      stacked_.contradictions.emplace(
          name, concat("the column '", name, "' of exam '", exam.id, "' is '", value, "' in ",
                       name_of(part.cache), ", and '", known->value, "' in ", name_of(other->cache),
                       "; make the caches agree, or give the column by --labels"));
    }
  }
}

void Stacker::take_frames(const CacheExam& part, cache::ExamInfo& exam) const {
  const cache::ExamInfo& added = info(part);
  append_frame_columns(exam, added, named_[part.cache].name);
  exam.source_digest += (exam.source_digest.empty() ? "" : "+") + added.source_digest;
  if (exam.source_kind.empty()) exam.source_kind = added.source_kind;
  if (exam.source_kind != added.source_kind) exam.source_kind = "mixed";
  if (exam.frame_width == 0) {
    exam.frame_width = added.frame_width;
    exam.frame_height = added.frame_height;
  }
  extend(exam.time_s, added.time_s);
  extend(exam.present, added.present);
  extend(exam.frame_source, added.frame_source);
}

// Times count from the earliest start, where all parts know theirs: as dates, or since one zero.
void Stacker::place_in_time(cache::ExamInfo& exam, std::span<const CacheExam> parts) const {
  for (double cache::ExamInfo::*start :
       {&cache::ExamInfo::start_time, &cache::ExamInfo::elapsed_start}) {
    const auto is_known = [&](const CacheExam& part) { return std::isfinite(info(part).*start); };
    if (!std::ranges::all_of(parts, is_known)) continue;
    auto time = exam.time_s.begin();
    for (const CacheExam& part : parts)
      for (std::size_t t = 0; t < info(part).frames(); ++t)
        *time++ += info(part).*start - exam.*start;
    return;
  }
}

std::vector<std::uint64_t> Stacker::checksums_of(std::span<const CacheExam> parts) const {
  std::vector<std::uint64_t> checksums;
  for (std::size_t view = 0; view < caches_.front().views().size(); ++view) {
    std::vector<std::uint64_t> own;
    for (const CacheExam& part : parts) {
      own.push_back(part.cache);
      own.push_back(caches_[part.cache].checksums(part.exam)[view]);
    }
    checksums.push_back(xxh3_64(std::as_bytes(std::span(own))));
  }
  return checksums;
}

StackedCaches Stacker::run() {
  for (const NamedCache& one : named_) stacked_.names.push_back(one.name);
  require_same_rows();
  join_recipes();
  match_exams();
  for (const std::vector<CacheExam>& parts : stacked_.parts) {
    stacked_.exams.push_back(stacked(parts));
    stacked_.exams.back().ordinal = stacked_.exams.size() - 1;
    stacked_.checksums.push_back(checksums_of(parts));
  }
  return std::move(stacked_);
}

}  // namespace

StackedCaches stack_caches(std::span<const cache::CacheReader> caches,
                           std::span<const NamedCache> named) {
  return Stacker(caches, named).run();
}

void scan_stacked(std::span<const cache::CacheReader> caches, const StackedCaches& stacked,
                  const std::string& view, std::span<const std::size_t> exams,
                  const cache::CacheReader::VisitStored& body) {
  while (!exams.empty()) {
    const auto block = exams.first(std::min(exams.size(), kExamsOfABlock));
    std::vector<std::vector<std::byte>> rows(block.size());
    for (std::size_t c = 0; c < caches.size(); ++c) {
      std::vector<std::size_t> own, at;
      for (std::size_t i = 0; i < block.size(); ++i) {
        const auto part = std::ranges::find(stacked.parts[block[i]], c, &CacheExam::cache);
        if (part == stacked.parts[block[i]].end()) continue;
        own.push_back(part->exam);
        at.push_back(i);
      }
      auto next = at.begin();
      caches[c].scan_stored(view, own, [&](std::size_t, std::span<const std::byte> stored) {
        extend(rows[*next++], stored);
      });
    }
    for (std::size_t i = 0; i < block.size(); ++i) body(block[i], rows[i]);
    exams = exams.subspan(block.size());
  }
}

std::vector<std::string> stream_names(std::span<const cache::ExamInfo> exams,
                                      const std::string& column) {
  std::set<std::string> names;
  for (const cache::ExamInfo& exam : exams)
    if (const cache::FrameColumn* streams = frame_column(exam, column))
      names.insert(streams->values.begin(), streams->values.end());
  names.erase("");
  return {names.begin(), names.end()};
}

namespace {

using StreamFrame = MergedStreams::StreamFrame;

// The number of each frame's stream.
std::vector<std::size_t> streams_of(const cache::ExamInfo& exam, const std::string& column,
                                    const std::vector<std::string>& names) {
  std::vector<std::size_t> streams;
  const cache::FrameColumn* values = frame_column(exam, column);
  for (std::size_t frame = 0; frame < exam.frames(); ++frame) {
    const std::string value = values ? values->values[frame] : "";
    const auto found = std::ranges::find(names, value);
    if (found == names.end())
      throw DataError(concat("exam '", exam.id, "': frame ", frame, " has the ", column, " '",
                             value, "', expected one of ", join(names, ", ")));
    streams.push_back(static_cast<std::size_t>(found - names.begin()));
  }
  return streams;
}

std::vector<StreamFrame> places_of(const cache::ExamInfo& exam,
                                   const std::vector<std::size_t>& streams) {
  const std::vector<std::size_t> instants = instants_of(exam.time_s, streams);
  std::vector<StreamFrame> places;
  for (std::size_t frame = 0; frame < streams.size(); ++frame)
    places.push_back({instants[frame], streams[frame]});
  return places;
}

// "FA+ICGA": the streams of which an exam has a frame.
std::string names_of(const cache::ExamInfo& exam, const std::vector<StreamFrame>& places,
                     const std::vector<std::string>& names) {
  std::vector<std::string> seen;
  for (std::size_t s = 0; s < names.size(); ++s)
    if (has_stream(exam, places, s)) seen.push_back(names[s]);
  return join(seen, "+");
}

void add_column(cache::ExamInfo& info, const std::string& streams) {
  const auto taken = std::ranges::find(info.columns, kStreamsColumn, &cache::ExamColumn::name);
  if (taken == info.columns.end()) info.columns.push_back({kStreamsColumn, streams});
}

// The first value that is not empty, of the frames that are there or, at an instant without one, of
// all. Frames come in reverse.
void take(std::string& to, const std::string& value, bool is_taken) {
  if (is_taken && !value.empty()) to = value;
}

// The exam with an instant's frames as one. Of these the one that is stored first gives its time,
// and the first that has them file and values.
cache::ExamInfo merged_info(const cache::ExamInfo& exam, const std::vector<StreamFrame>& places,
                            const std::string& column, const std::vector<std::string>& names) {
  cache::ExamInfo info = exam;
  add_column(info, names_of(exam, places, names));
  std::erase_if(info.frame_columns,
                [&](const cache::FrameColumn& one) { return one.name == column; });
  std::size_t instants = 0;
  for (const StreamFrame& place : places) instants = std::max(instants, place.instant + 1);
  info.time_s.assign(instants, cache::kUnknownTime);
  info.present.assign(instants, 0);
  info.frame_index.clear();
  info.frame_source.assign(exam.frame_source.empty() ? 0 : instants, "");
  for (cache::FrameColumn& one : info.frame_columns) one.values.assign(instants, "");
  for (std::size_t frame = places.size(); frame-- > 0;) {
    info.time_s[places[frame].instant] = exam.time_s[frame];
    info.present[places[frame].instant] |= exam.present[frame];
  }
  for (std::size_t frame = places.size(); frame-- > 0;) {
    const std::size_t at = places[frame].instant;
    const bool is_taken = exam.present[frame] || !info.present[at];
    if (!info.frame_source.empty()) take(info.frame_source[at], exam.frame_source[frame], is_taken);
    for (cache::FrameColumn& one : info.frame_columns)
      take(one.values[at], frame_column(exam, one.name)->values[frame], is_taken);
  }
  return info;
}

template <typename Bits>
void fill(std::span<std::byte> row, Bits value) {
  for (std::size_t at = 0; at < row.size(); at += sizeof value)
    std::memcpy(row.data() + at, &value, sizeof value);
}

// The columns of which frames of one instant have different values.
std::set<std::string> disputed_columns(const cache::ExamInfo& exam, const cache::ExamInfo& merged,
                                       const std::vector<StreamFrame>& places) {
  std::set<std::string> names;
  for (const cache::FrameColumn& column : merged.frame_columns) {
    const std::vector<std::string>& values = frame_column(exam, column.name)->values;
    for (std::size_t frame = 0; frame < places.size(); ++frame)
      if (exam.present[frame] && !values[frame].empty() &&
          values[frame] != column.values[places[frame].instant])
        names.insert(column.name);
  }
  return names;
}

}  // namespace

MergedStreams merge_streams(std::span<const cache::ExamInfo> exams, const std::string& column,
                            std::vector<std::string> names) {
  const auto has_column = [&](const cache::ExamInfo& exam) {
    return frame_column(exam, column) != nullptr;
  };
  if (std::ranges::none_of(exams, has_column))
    throw DataError(concat("the cache has no frame column '", column,
                           "'; extract it again with --frame-columns ", shell_word(column),
                           ", or give a cache of each stream, --cache NAME=PATH,NAME=PATH"));
  if (names.empty()) names = stream_names(exams, column);
  if (names.size() < 2)
    throw DataError(concat("the frame column '", column, "' names ", plural(names.size(), "stream"),
                           ", expected two or more"));
  MergedStreams merged{std::move(names), {}, {}, {}};
  for (const cache::ExamInfo& exam : exams) {
    merged.places.push_back(places_of(exam, streams_of(exam, column, merged.names)));
    merged.exams.push_back(merged_info(exam, merged.places.back(), column, merged.names));
    for (const std::string& name :
         disputed_columns(exam, merged.exams.back(), merged.places.back()))
      merged.disputed.emplace(name, exam.id);
  }
  return merged;
}

bool has_stream(const cache::ExamInfo& stored, std::span<const MergedStreams::StreamFrame> places,
                std::size_t stream) {
  for (std::size_t frame = 0; frame < places.size(); ++frame)
    if (stored.present[frame] && places[frame].stream == stream) return true;
  return false;
}

StreamMatches count_matches(std::span<const cache::ExamInfo> stored, const MergedStreams& merged) {
  StreamMatches matches;
  for (std::size_t e = 0; e < stored.size(); ++e) {
    std::map<std::size_t, std::set<std::size_t>> at;  // streams at an instant
    std::set<std::size_t> streams;
    for (std::size_t frame = 0; frame < merged.places[e].size(); ++frame) {
      if (!stored[e].present[frame]) continue;
      const auto& [instant, stream] = merged.places[e][frame];
      at[instant].insert(stream);
      streams.insert(stream);
    }
    matches.exams += !streams.empty();
    matches.matched_exams += streams.size() > 1;
    matches.instants += at.size();
    for (const auto& [instant, there] : at) matches.matched_instants += there.size() > 1;
  }
  return matches;
}

void merge_rows(const cache::ExamInfo& stored, std::span<const MergedStreams::StreamFrame> places,
                std::size_t streams, std::size_t value_bytes, std::span<const std::byte> rows,
                std::span<std::byte> merged) {
  constexpr std::uint16_t kHalfNan = 0x7e00, kHalfOne = 0x3c00;
  const bool half = value_bytes == sizeof(std::uint16_t);
  if (half)
    fill(merged, kHalfNan);
  else
    fill(merged, std::numeric_limits<float>::quiet_NaN());
  const std::size_t from = places.empty() ? 0 : rows.size() / places.size();  // bytes of a row
  const std::size_t to = streams * (from + value_bytes);
  for (std::size_t row = 0; row < merged.size(); row += to)
    std::memset(merged.data() + row + streams * from, 0, streams * value_bytes);
  for (std::size_t frame = 0; frame < places.size(); ++frame) {
    if (!stored.present[frame]) continue;
    const auto [instant, stream] = places[frame];
    std::byte* row = merged.data() + instant * to;
    std::memcpy(row + stream * from, rows.data() + frame * from, from);
    const float one = 1;
    std::memcpy(row + streams * from + stream * value_bytes,
                half ? static_cast<const void*>(&kHalfOne) : &one, value_bytes);
  }
}

namespace {

void append_values(std::vector<cache::FrameColumn>& columns, const cache::ExamInfo& part,
                   std::size_t before) {
  for (cache::FrameColumn& column : columns) {
    if (const cache::FrameColumn* own = frame_column(part, column.name))
      std::ranges::copy(own->values, std::back_inserter(column.values));
    column.values.resize(before + part.frames());
  }
}

void append_times(std::vector<double>& times, const cache::ExamInfo& part, double begin) {
  const std::size_t before = times.size();
  for (const double time : part.time_s) times.push_back(begin + time);
  const bool untimed = std::ranges::all_of(part.time_s, [](double t) { return std::isnan(t); });
  if (untimed && !part.time_s.empty()) times[before] = begin;
}

}  // namespace

JoinedExams join_exams(std::span<const cache::ExamInfo> exams,
                       std::vector<std::vector<std::size_t>> parts,
                       std::span<const double> begin_s) {
  JoinedExams joined{{exams.begin(), exams.end()}, std::move(parts)};
  for (std::size_t e = 0; e < exams.size(); ++e) {
    if (joined.parts[e].size() == 1) continue;
    cache::ExamInfo& info = joined.exams[e];
    info.time_s.clear();
    info.present.clear();
    info.frame_index.clear();
    info.frame_source.clear();
    for (cache::FrameColumn& column : info.frame_columns) column.values.clear();
    for (const std::size_t p : joined.parts[e]) {
      const cache::ExamInfo& part = exams[p];
      append_values(info.frame_columns, part, info.present.size());
      append_times(info.time_s, part, begin_s[p] - begin_s[joined.parts[e].front()]);
      std::ranges::copy(part.present, std::back_inserter(info.present));
      std::ranges::copy(part.frame_source, std::back_inserter(info.frame_source));
    }
  }
  return joined;
}

namespace {

const std::vector<std::string> kNoNames;

}  // namespace

SequenceReader::SequenceReader(const std::filesystem::path& path, cache::Detail detail)
    : SequenceReader(std::vector<NamedCache>{{"", path}}, detail) {}
SequenceReader::SequenceReader(std::span<const NamedCache> caches, cache::Detail detail) {
  for (const NamedCache& named : caches) caches_.emplace_back(named.path, detail);
  if (caches_.size() > 1) stacked_ = stack_caches(caches_, caches);
}

std::int64_t SequenceReader::dimension() const {
  const std::int64_t stored = caches_.front().dimension();
  if (!merged_) return stored;
  return static_cast<std::int64_t>(
      merged_width(static_cast<std::size_t>(stored), merged_->names.size()));
}

void SequenceReader::merge_streams(const std::string& column, std::vector<std::string> names) {
  merged_ = temporal::merge_streams(stored_exams(), column, std::move(names));
}

const std::vector<std::string>& SequenceReader::streams() const {
  return merged_ ? merged_->names : kNoNames;
}

const std::vector<std::string>& SequenceReader::cache_names() const {
  return stacked_ ? stacked_->names : kNoNames;
}

void SequenceReader::require_agreed(const std::string& column) const {
  if (!stacked_) return;
  const auto said = stacked_->contradictions.find(column);
  if (said != stacked_->contradictions.end()) throw DataError(said->second);
}

std::vector<std::uint64_t> SequenceReader::clean_checksums(std::size_t exam) const {
  if (!stacked_) return {caches_.front().checksums(exam).front()};
  std::vector<std::uint64_t> sums;
  for (const auto& [cache, own] : stacked_->parts[exam])
    sums.push_back(caches_[cache].checksums(own).front());
  return sums;
}

std::string SequenceReader::disputed_in(const std::string& column) const {
  if (!merged_) return "";
  const auto found = merged_->disputed.find(column);
  return found == merged_->disputed.end() ? "" : found->second;
}

bool SequenceReader::has_stream(std::size_t exam, std::size_t stream) const {
  return std::ranges::any_of(parts(exam), [&](std::size_t part) {
    return temporal::has_stream(stored_exams()[part], merged_->places[part], stream);
  });
}

void SequenceReader::join_exams(std::vector<std::vector<std::size_t>> parts,
                                std::span<const double> begin_s) {
  joined_ = temporal::join_exams(alone(), std::move(parts), begin_s);
}

std::vector<std::size_t> SequenceReader::parts_of(std::size_t exam) const {
  const auto own = parts(exam);
  return {own.begin(), own.end()};
}

std::vector<std::string> SequenceReader::provenance(std::size_t exam) const {
  std::vector<std::string> facts;
  const auto own = parts(exam);
  for (const std::size_t part : own) {
    const cache::ExamInfo& info = alone()[part];
    facts.insert(facts.end(), {std::to_string(info.revision), info.source_digest});
    if (own.size() == 1 && !merged_) continue;
    for (const std::uint64_t sum : checksums(part)) facts.push_back(std::to_string(sum));
    if (!merged_) continue;
    for (const auto& [instant, stream] : merged_->places[part])
      facts.push_back(concat(instant, ":", stream));
  }
  return facts;
}

void SequenceReader::append_rows(std::size_t part, std::span<const std::byte> stored,
                                 std::vector<std::byte>& rows) const {
  if (!merged_) {
    rows.insert(rows.end(), stored.begin(), stored.end());
    return;
  }
  const std::size_t before = rows.size(), value = bytes_of(storage());
  rows.resize(before + alone()[part].frames() * static_cast<std::size_t>(dimension()) * value);
  merge_rows(stored_exams()[part], merged_->places[part], merged_->names.size(), value, stored,
             std::span(rows).subspan(before));
}

template <typename Scan>
void SequenceReader::scan_parts(std::span<const std::size_t> exams, const Scan& scan,
                                const VisitStored& body) const {
  if (!joined_ && !merged_) return scan(exams, body);
  std::vector<std::size_t> all;
  for (const std::size_t& exam : exams) std::ranges::copy(parts(exam), std::back_inserter(all));
  std::vector<std::byte> rows;
  std::size_t at = 0, read = 0;  // exam among `exams`, and parts of it
  scan(all, [&](std::size_t part, std::span<const std::byte> stored) {
    append_rows(part, stored, rows);
    if (++read < parts(exams[at]).size()) return;
    body(exams[at++], rows);
    rows.clear();
    read = 0;
  });
}

void SequenceReader::scan_stored(const std::string& view, std::span<const std::size_t> exams,
                                 const VisitStored& body) const {
  const auto scan = [&](std::span<const std::size_t> parts, const VisitStored& each) {
    if (stacked_) return scan_stacked(caches_, *stacked_, view, parts, each);
    caches_.front().scan_stored(view, parts, each);
  };
  scan_parts(exams, scan, body);
}

std::optional<cache::Cut> SequenceReader::cut() const {
  return stacked_ ? std::nullopt : caches_.front().cut();
}

void SequenceReader::scan_cut(std::size_t view, std::span<const std::size_t> exams,
                              const VisitStored& body) const {
  if (merged_ || stacked_) throw CacheError("the cut of several streams cannot be read");
  const auto scan = [&](std::span<const std::size_t> parts, const VisitStored& each) {
    caches_.front().scan_cut(view, parts, each);
  };
  scan_parts(exams, scan, body);
}

std::vector<std::string> SequenceReader::thumbnails(std::size_t exam) const {
  if (stacked_) return {};
  std::vector<std::string> all;
  for (const std::size_t part : parts(exam)) {
    std::vector<std::string> files = caches_.front().thumbnails(part);
    if (merged_ && !files.empty()) {
      std::vector<std::string> of_instants(merged_->exams[part].frames());
      for (std::size_t frame = files.size(); frame-- > 0;)  // the first that there is is kept
        if (!files[frame].empty()) of_instants[merged_->places[part][frame].instant] = files[frame];
      files = std::move(of_instants);
    }
    all.insert(all.end(), files.begin(), files.end());
  }
  return all;
}

}  // namespace coldframe::temporal
