#include "extract/plan/resume/reuse.h"

#include <algorithm>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/text/text.h"
#include "extract/plan/resume/freshness.h"
#include "extract/plan/resume/slot_items.h"

namespace coldframe::extract {
namespace {

// These keys do not touch the clean features.
cache::Recipe without_additions(cache::Recipe recipe) {
  for (const char* key : {"views", "augment", "thumbnails"}) recipe.storage.erase(key);
  return recipe;
}

// Views are numbered, and each is drawn by its number: the first ones of both are the same where
// they are drawn alike.
std::size_t common_views(const cache::CacheReader& before, const cache::Recipe& now) {
  const auto augment = [](const cache::Recipe& recipe) {
    return recipe.storage.value("augment", Json());
  };
  if (augment(before.recipe()) != augment(now)) return 1;
  const auto wanted = now.storage["views"].get<std::vector<std::string>>();
  const auto end =
      std::mismatch(before.views().begin(), before.views().end(), wanted.begin(), wanted.end());
  return static_cast<std::size_t>(end.first - before.views().begin());
}

}  // namespace

ReusableCache::ReusableCache(const std::filesystem::path& path) : path_(path), reader_(path) {}

void ReusableCache::serve(const cache::Recipe& recipe, const std::string& precision) {
  const auto differing =
      cache::differences(without_additions(reader_.recipe()), without_additions(recipe));
  if (!differing.empty())
    throw CacheError(concat("--reuse ", path_.string(), ": it was made with another recipe, and ",
                            "only views and thumbnails may differ; give its options or leave out ",
                            "--reuse:\n  ", join(differing, "\n  ")));
  if (reader_.precisions() != std::vector{precision})
    throw CacheError(concat(
        "--reuse ", path_.string(), ": it was computed in ", join(reader_.precisions(), " and "),
        ", this run computes in ", precision, "; ",
        reader_.precisions().size() == 1 ? concat("give --precision ", reader_.precisions().front())
                                         : "leave out --reuse"));
  views_ = common_views(reader_, recipe);
}

void ReusableCache::mark(const PlanOptions& options, Plan& plan) const {
  for (ExamTask& task : plan.extract) {
    if (stop_requested()) return;
    const std::size_t index = reader_.find(task.exam->id);
    if (index == cache::CacheReader::npos) continue;
    const cache::ExamInfo& before = reader_.exams()[index];
    const bool same =
        compare_sources(*task.exam, before).freshness == Freshness::kMetadata &&
        !items_of_slots(*task.exam, options.selection, options.reader, before).empty();
    if (same) task.reusable = {&reader_, index, views_};
  }
}

}  // namespace coldframe::extract
