#include "extract/frames/input/manifest/times.h"

#include <algorithm>
#include <numeric>

#include "common/text/text.h"

namespace coldframe::frames {
namespace {

std::string in_words(const Timestamp& time, const Timestamp& first) {
  return concat(fixed(time.seconds - (time.absolute ? first.seconds : 0.0), 1), " s");
}

void sort_by_time(ManifestDraft& draft, const RefuseRow& refuse) {
  for (std::size_t i = 0; i < draft.rows.size(); ++i) {
    if (!draft.times[i])
      refuse(draft.rows[i], concat("exam '", draft.spec.id, "': frame ", i,
                                   " has no time, which --sort time needs of all or none"));
  }
  std::vector<std::size_t> order(draft.rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return draft.times[a]->seconds < draft.times[b]->seconds;
  });
  ManifestDraft sorted;
  for (const std::size_t i : order) {
    sorted.spec.items.push_back(std::move(draft.spec.items[i]));
    sorted.rows.push_back(draft.rows[i]);
    sorted.times.push_back(draft.times[i]);
  }
  draft.spec.items = std::move(sorted.spec.items);
  draft.rows = std::move(sorted.rows);
  draft.times = std::move(sorted.times);
}

}  // namespace

void settle_times(ManifestDraft& draft, const ExamListOptions& options, const RefuseRow& refuse) {
  const auto& times = draft.times;
  const auto known = [](const auto& time) { return time.has_value(); };
  const bool stated = std::any_of(times.begin(), times.end(), known);
  // What headers say of a folder's files or a pattern's is of use where nothing else is said.
  const OrderBasis& basis = draft.spec.basis;
  if (!stated && draft.one_row && !basis.order.empty() && !basis.names_alone) return;
  for (ExamItem& item : draft.spec.items) item.time_s = std::numeric_limits<double>::quiet_NaN();
  draft.spec.times_from_headers = !stated;
  if (!stated) return;
  if (options.sort_by_time) sort_by_time(draft, refuse);
  const std::string& id = draft.spec.id;
  if (!times.front()) {
    refuse(draft.rows.front(), concat("exam '", id, "' has times, but none for its first frame"));
  }
  const Timestamp first = *times.front();
  (first.absolute ? draft.spec.start_time : draft.spec.elapsed_start) = first.seconds;
  std::size_t before = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (!times[i]) continue;
    if (times[i]->absolute != first.absolute) {
      refuse(draft.rows[i],
             concat("exam '", id,
                    "' mixes seconds with dates in column 'time'; write dates as YYYY-MM-DD"));
    }
    if (times[i]->seconds < times[before]->seconds && !options.allow_unordered) {
      refuse(draft.rows[i],
             concat("exam '", id, "': frame ", i, " has time ", in_words(*times[i], first),
                    " before frame ", before, " at ", in_words(*times[before], first),
                    "; sort the manifest, give --sort time or pass --allow-unordered"));
    }
    draft.spec.items[i].time_s = times[i]->seconds - first.seconds;
    before = i;
  }
}

}  // namespace coldframe::frames
