#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/options/option_groups.h"

namespace coldframe::extract {

OptionRows view_options(ExtractOptions& options) {
  augment::Augmentation& augmentation = options.augmentation;
  const auto parse_list = [&augmentation](const std::string&, const std::string& word) {
    augment::parse_list(word, augmentation);
  };
  return {
      {"views", "K", number(augmentation.views, {0, 64}),
       "store K augmented views of every exam beside the clean one, for `train` to draw from", "",
       "storage.views", augment::view_names(augmentation)},
      {"augment", "LIST", parse_list,
       concat("what may change in views, the same for all frames of an exam: flip, vflip, rotate "
              "(degrees), scale (least area of a crop), brightness, contrast, gamma, noise, each "
              "NAME, NAME=STRENGTH or NAME=LOW:HIGH (default ",
              augment::kDefaultList, ")"),
       "", "storage.augment",
       augmentation.views > 0 ? augment::to_json(augmentation) : Json(nullptr)},
      {"augment-seed", "N", number(augmentation.seed, at_least(0)),
       "of the random views (default 0)"},
  };
}

void finish_views(const GivenWords& given, ExtractOptions& options) {
  if (options.augmentation.views > 0) {
    if (!given.contains("augment"))
      augment::parse_list(augment::kDefaultList, options.augmentation);
    return;
  }
  for (const char* option : {"augment", "augment-seed"})
    if (given.contains(option))
      throw ConfigError(
          concat("--", option, " needs --views K, the number of augmented views, e.g. --views 4"));
}

}  // namespace coldframe::extract
