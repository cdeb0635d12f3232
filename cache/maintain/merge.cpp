#include "cache/maintain/merge.h"

#include <algorithm>
#include <memory>
#include <set>
#include <unordered_map>

#include "cache/format/format.h"
#include "cache/format/shard_image.h"
#include "cache/read/collection.h"
#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::cache {
namespace {

namespace fs = std::filesystem;

class Merger {
 public:
  Merger(const Location& out, const std::vector<fs::path>& inputs, bool without_thumbnails)
      : out_(out), inputs_(inputs), without_thumbnails_(without_thumbnails) {
    for (const fs::path& input : inputs)
      caches_.push_back(std::make_unique<Collection>(locate(input)));
  }
  MergeReport run();

 private:
  struct Place {
    std::size_t cache, exam;
  };
  const ExamInfo& info(const Place& place) const {
    return caches_[place.cache]->exams()[place.exam];
  }
  ShardHeader header_of(const Collection& cache) const;
  void join_headers();
  void choose_exams();
  void choose_places();
  void choose_failures();
  void settle(Place& chosen, const Place& other) const;

  Location out_;
  const std::vector<fs::path>& inputs_;
  bool without_thumbnails_;
  std::vector<std::unique_ptr<Collection>> caches_;
  std::vector<Place> chosen_;
  ShardContents contents_;
  MergeReport report_;
};

ShardHeader Merger::header_of(const Collection& cache) const {
  ShardHeader header = cache.header();
  if (without_thumbnails_)
    header.recipe.storage.erase(kThumbnails);  // the key has the name of the group
  return header;
}

void Merger::join_headers() {
  // A cache of failures alone knows no views.
  const auto with_exams = std::find_if(caches_.begin(), caches_.end(),
                                       [](const auto& cache) { return !cache->exams().empty(); });
  contents_.header = header_of(with_exams == caches_.end() ? *caches_.front() : **with_exams);
  std::vector<std::string>& precisions = contents_.header.precisions;
  for (std::size_t i = 0; i < caches_.size(); ++i) {
    ShardHeader header = header_of(*caches_[i]);
    if (caches_[i]->exams().empty()) header.views = contents_.header.views;
    require_same_cache(contents_.header, header, inputs_[i].string());
    for (const std::string& precision : header.precisions)
      if (std::find(precisions.begin(), precisions.end(), precision) == precisions.end())
        precisions.push_back(precision);
  }
}

void Merger::settle(Place& chosen, const Place& other) const {
  const ExamInfo &first = info(chosen), &second = info(other);
  if (second.revision > first.revision) {
    chosen = other;
  } else if (second.revision == first.revision && caches_[chosen.cache]->checksums(chosen.exam) !=
                                                      caches_[other.cache]->checksums(other.exam)) {
    throw CacheError(concat("exam '", first.id, "' has different features in ",
                            inputs_[chosen.cache].string(), " and in ",
                            inputs_[other.cache].string(), ", both of revision ", first.revision,
                            "; `coldframe cache diff` compares them; extract it again in one of "
                            "them, or leave one out"));
  }
}

void Merger::choose_exams() {
  std::unordered_map<std::string_view, std::size_t> index;
  for (std::size_t c = 0; c < caches_.size(); ++c) {
    for (std::size_t e = 0; e < caches_[c]->exams().size(); ++e) {
      const auto [entry, is_new] = index.emplace(caches_[c]->exams()[e].id, chosen_.size());
      if (is_new) {
        chosen_.push_back({c, e});
      } else {
        ++report_.duplicates;
        settle(chosen_[entry->second], {c, e});
      }
    }
  }
}

void Merger::choose_places() {
  std::set<std::uint64_t> taken;
  for (const Place& place : chosen_) taken.insert(info(place).ordinal);
  report_.renumbered = taken.size() < chosen_.size();
  if (!report_.renumbered)
    std::sort(chosen_.begin(), chosen_.end(),
              [&](const Place& a, const Place& b) { return info(a).ordinal < info(b).ordinal; });
  for (const Place& place : chosen_) {
    const Collection& cache = *caches_[place.cache];
    contents_.exams.push_back(
        {info(place), cache.checksums(place.exam), cache.thumbnails(place.exam)});
    if (report_.renumbered) contents_.exams.back().info.ordinal = contents_.exams.size() - 1;
  }
}

// A failure holds unless a later revision of its exam is among what was chosen.
void Merger::choose_failures() {
  std::unordered_map<std::string_view, const ExamInfo*> exams;
  for (const StoredExam& exam : contents_.exams) exams.emplace(exam.info.id, &exam.info);
  std::unordered_map<std::string, std::uint32_t> latest;
  for (const auto& cache : caches_)
    for (const Failure& failure : cache->failures()) {
      std::uint32_t& revision = latest.emplace(failure.exam, failure.revision).first->second;
      revision = std::max(revision, failure.revision);
    }
  std::uint64_t behind = contents_.exams.size();
  std::unordered_map<std::string, std::uint64_t> places;
  for (const auto& cache : caches_) {
    for (Failure failure : cache->failures()) {
      const auto exam = exams.find(failure.exam);
      const bool there = exam != exams.end();
      if (failure.revision < latest[failure.exam] ||
          (there && exam->second->revision > failure.revision))
        continue;
      if (there)
        failure.ordinal = exam->second->ordinal;
      else if (report_.renumbered)
        failure.ordinal = places.emplace(failure.exam, behind + places.size()).first->second;
      contents_.failures.push_back(std::move(failure));
    }
  }
  report_.failures = contents_.failures.size();
}

MergeReport Merger::run() {
  join_headers();
  choose_exams();
  choose_places();
  choose_failures();
  report_.exams = contents_.exams.size();
  publish_large(out_.path, contents_,
                {[this](std::size_t exam, std::size_t view, std::span<std::byte> rows) {
                   const Place& place = chosen_[exam];
                   caches_[place.cache]->read_rows(place.exam, view, rows);
                 },
                 [this](std::size_t exam, std::span<std::byte> bytes) {
                   const Place& place = chosen_[exam];
                   caches_[place.cache]->read_thumbnails(place.exam, bytes);
                 }});
  return report_;
}

}  // namespace

MergeReport merge_caches(const Location& out, const std::vector<fs::path>& inputs,
                         bool without_thumbnails) {
  if (!out.single_file)
    throw ConfigError(
        concat(out.path.string(), ": the output is one file, whose name must end in .h5"));
  if (!out.files().empty())
    throw CacheError(
        concat(out.path.string(), ": is there already; choose another name, or remove it first"));
  return Merger(out, inputs, without_thumbnails).run();
}

}  // namespace coldframe::cache
