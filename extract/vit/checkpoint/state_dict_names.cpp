#include "extract/vit/checkpoint/state_dict_names.h"

#include <algorithm>
#include <array>

#include "common/cli/log.h"
#include "common/text/text.h"

namespace coldframe::vit {

namespace {

constexpr std::array<std::string_view, 5> kWrappers = {"module.", "_orig_mod.", "model.",
                                                       "encoder.", "backbone."};
constexpr int kMaxWrappers = 8;  // more, and the names were made to waste time

}  // namespace

StateDict inside(StateDict tensors, std::string_view prefix) {
  StateDict kept;
  for (auto& [name, tensor] : tensors)
    if (name.starts_with(prefix)) kept.emplace(name.substr(prefix.size()), std::move(tensor));
  if (kept.size() < tensors.size())
    log_info(concat("weights: left out ", plural(tensors.size() - kept.size(), "tensor"),
                    " outside '", prefix, "'"));
  return kept;
}

StateDict strip_prefixes(StateDict tensors) {
  for (int round = 0; round < kMaxWrappers && !tensors.empty(); ++round) {
    for (const std::string_view prefix : kWrappers) {
      const auto count = static_cast<std::size_t>(
          std::count_if(tensors.begin(), tensors.end(),
                        [&](const auto& item) { return item.first.starts_with(prefix); }));
      if (count == 0 || (count < tensors.size() && prefix != "backbone.")) continue;
      tensors = inside(std::move(tensors), prefix);
    }
  }
  return tensors;
}

}  // namespace coldframe::vit
