#include "train_temporal/fit/tuned_features.h"

#include <algorithm>
#include <map>
#include <set>

#include "common/torch/to_device.h"

namespace coldframe::temporal {

namespace {

// `rows` ascend. Rows beside each other are a view.
torch::Tensor selected(const torch::Tensor& table, const std::vector<std::int64_t>& rows) {
  const std::int64_t end = rows.back() + 1;
  if (static_cast<std::int64_t>(rows.size()) == end - rows.front())
    return table.slice(0, rows.front(), end);
  return table.index_select(0, to_device(torch::tensor(rows, torch::kInt64), table.device()));
}

}  // namespace

TunedFeatures::TunedFeatures(const Dataset& dataset, tune::TunedVit& vit, const Options& options)
    : cut_(dataset, RowKind::kCut, options.ahead), vit_(vit), options_(options), window_(dataset) {
  window_.views = {"clean"};
  window_.features.reset();
}

std::size_t TunedFeatures::exams_at_once() const {
  return kTunedExamsAtOnce;
}

void TunedFeatures::plan(Groups groups, ViewOf view_of) {
  window_.features.reset();
  cut_.plan(std::move(groups), std::move(view_of));
}

void TunedFeatures::next() {
  window_.features.reset();
  cut_.next();
  for (std::size_t exam : cut_.exams_at_hand()) {
    window_.sequences[exam].first_row = cut_.window().sequences[exam].first_row;
  }
}

void TunedFeatures::evaluate() {
  window_.features = vit_.features(cut_.window().features);
}

// Each frame once, though several items may use it: mixup's partners are items too.
TunedFeatures::UsedRows TunedFeatures::used_by(std::span<const BatchItem> items) const {
  std::map<std::int64_t, std::uint64_t> key_of;
  const auto add = [&](std::size_t exam, const std::vector<std::int64_t>& frames) {
    const Sequence& sequence = window_.sequences[exam];
    for (std::int64_t frame : frames) {
      key_of[sequence.first_row + frame] =
          mix_bits(sequence.key + mix_bits(static_cast<std::uint64_t>(frame) + 1));
    }
  };
  for (const BatchItem& item : items) {
    add(item.exam, item.frames.features);
    if (item.partner) add(item.partner->exam, item.partner->features);
  }
  UsedRows used;
  for (const auto& [row, key] : key_of) {
    used.rows.push_back(row);
    used.keys.push_back(key);
  }
  return used;
}

// The first item, and those behind it that fit beside it. A balanced batch may have an exam twice,
// whose frames are there once.
std::size_t TunedFeatures::items_at_once(std::span<const BatchItem> items) {
  if (items.size() == 1) return 1;
  std::set<std::size_t> exams;
  std::vector<std::int64_t> frames;  // up to each item
  for (const BatchItem& item : items) {
    const bool is_new = exams.insert(item.exam).second;
    const auto own = is_new ? static_cast<std::int64_t>(item.frames.features.size()) : 0;
    frames.push_back((frames.empty() ? 0 : frames.back()) + own);
  }
  const auto end = std::ranges::upper_bound(frames, vit_.rows_at_once(frames.back()));
  return std::max<std::size_t>(static_cast<std::size_t>(end - frames.begin()), 1);
}

void TunedFeatures::train(std::span<const BatchItem> items, bool in_turn, std::uint64_t epoch,
                          const Body& body) {
  while (!items.empty()) {
    const std::size_t count = in_turn ? items_at_once(items) : items.size();
    step(items.first(count), epoch, body);
    items = items.subspan(count);
  }
}

void TunedFeatures::step(std::span<const BatchItem> items, std::uint64_t epoch, const Body& body) {
  const UsedRows used = used_by(items);
  if (used.rows.empty()) return body(items);
  const torch::Tensor& cut = cut_.window().features;
  vit_.step(
      selected(cut, used.rows), used.keys, Dropout(options_.dropout, options_.seed, epoch),
      [&](const torch::Tensor& features) {
        const auto rows = torch::tensor(used.rows, torch::kInt64).to(features.device());
        torch::Tensor table = torch::zeros({cut.size(0), features.size(1)}, features.options());
        window_.features = table.index_copy_(0, rows, features.detach()).requires_grad_();
        body(items);
        const torch::Tensor gradient = window_.features.grad();
        window_.features.reset();
        return gradient.defined() ? selected(gradient, used.rows) : torch::zeros_like(features);
      });
}

}  // namespace coldframe::temporal
