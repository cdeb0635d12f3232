#include "train_temporal/data/sequences/stacked_caches.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "common/cli/error.h"
#include "common/files/fingerprint.h"
#include "common/text/spelling.h"
#include "common/text/text.h"

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

using Part = StackedCaches::Part;

class Stacker {
 public:
  Stacker(std::span<const cache::CacheReader> caches, std::span<const NamedCache> named)
      : caches_(caches), named_(named) {}
  StackedCaches run();

 private:
  void require_same_rows() const;
  void join_recipes();
  void match_exams();
  cache::ExamInfo stacked(const std::vector<Part>& parts);
  // `before`: the exam's parts that it has taken up.
  void take_patient(const Part& part, std::span<const Part> before, cache::ExamInfo& exam) const;
  void take_columns(const Part& part, std::span<const Part> before, cache::ExamInfo& exam);
  void take_frames(const Part& part, cache::ExamInfo& exam) const;
  void place_in_time(cache::ExamInfo& exam, std::span<const Part> parts) const;
  std::vector<std::uint64_t> checksums_of(std::span<const Part> parts) const;
  std::string name_of(std::size_t cache) const {  // in messages
    return concat("'", named_[cache].path.string(), "' (", named_[cache].name, ")");
  }
  const cache::ExamInfo& info(const Part& part) const {
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
  for (const cache::CacheReader& one : caches_) {
    features.push_back(one.recipe().features);
    storage.push_back(one.recipe().storage);
    extend(stacked_.failures, one.failures());
  }
  stacked_.recipe = {joined(features, stacked_.names), joined(storage, stacked_.names),
                     Json::object()};
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

cache::ExamInfo Stacker::stacked(const std::vector<Part>& parts) {
  cache::ExamInfo exam;
  exam.id = info(parts.front()).id;
  exam.revision = info(parts.front()).revision;
  exam.elapsed_start = info(parts.front()).elapsed_start;  // of all parts, or of none
  for (const Part& part : parts) {
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

void Stacker::take_patient(const Part& part, std::span<const Part> before,
                           cache::ExamInfo& exam) const {
  const std::string& patient = info(part).patient;
  if (exam.patient.empty()) exam.patient = patient;
  if (patient.empty() || same_id(patient, exam.patient)) return;
  const auto other =
      std::ranges::find_if(before, [&](const Part& one) { return !info(one).patient.empty(); });
  throw DataError(concat("exam '", exam.id, "' is of patient '", patient, "' in ",
                         name_of(part.cache), ", and of '", exam.patient, "' in ",
                         name_of(other->cache),
                         "; caches of streams are matched by the ids of exams, which have to be "
                         "the same exam's"));
}

void Stacker::take_columns(const Part& part, std::span<const Part> before, cache::ExamInfo& exam) {
  for (const auto& [name, value] : info(part).columns) {
    const auto known = std::ranges::find(exam.columns, name, &cache::ExamColumn::name);
    if (known == exam.columns.end()) {
      exam.columns.push_back({name, value});
    } else if (known->value.empty()) {
      known->value = value;
    } else if (!value.empty() && !same_value(known->value, value)) {
      const auto other = std::ranges::find_if(
          before, [&](const Part& one) { return !column_value(info(one), name).empty(); });
      stacked_.contradictions.emplace(
          name, concat("the column '", name, "' of exam '", exam.id, "' is '", value, "' in ",
                       name_of(part.cache), ", and '", known->value, "' in ", name_of(other->cache),
                       "; make the caches agree, or give the column by --labels"));
    }
  }
}

void Stacker::take_frames(const Part& part, cache::ExamInfo& exam) const {
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
void Stacker::place_in_time(cache::ExamInfo& exam, std::span<const Part> parts) const {
  for (double cache::ExamInfo::*start :
       {&cache::ExamInfo::start_time, &cache::ExamInfo::elapsed_start}) {
    const auto is_known = [&](const Part& part) { return std::isfinite(info(part).*start); };
    if (!std::ranges::all_of(parts, is_known)) continue;
    auto time = exam.time_s.begin();
    for (const Part& part : parts)
      for (std::size_t t = 0; t < info(part).frames(); ++t)
        *time++ += info(part).*start - exam.*start;
    return;
  }
}

std::vector<std::uint64_t> Stacker::checksums_of(std::span<const Part> parts) const {
  std::vector<std::uint64_t> checksums;
  for (std::size_t view = 0; view < caches_.front().views().size(); ++view) {
    std::vector<std::uint64_t> own;
    for (const Part& part : parts) {
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
  for (const std::vector<Part>& parts : stacked_.parts) {
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
        const auto part = std::ranges::find(stacked.parts[block[i]], c, &Part::cache);
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

}  // namespace coldframe::temporal
