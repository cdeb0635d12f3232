#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/options/option_groups.h"

namespace coldframe::extract {
namespace {

namespace po = boost::program_options;

constexpr std::int64_t kMostViews = 64;

}  // namespace

void ViewOptions::describe(po::options_description& description) {
  static const std::string help = concat(
      "what may change in views, the same for all frames of an exam: flip, vflip, rotate "
      "(degrees), "
      "scale (least area of a crop), brightness, contrast, gamma, noise, each NAME, NAME=STRENGTH "
      "or NAME=LOW:HIGH (default ",
      augment::kDefaultList, ")");
  auto add = description.add_options();
  add("views", po::value(&views)->value_name("K"),
      "store K augmented views of every exam beside the clean one, for `train` to draw from");
  add("augment", po::value(&augment)->value_name("LIST"), help.c_str());
  add("augment-seed", po::value(&seed)->value_name("N"), "of the random views (default 0)");
  add("reuse", po::value(&reuse)->value_name("OLD"),
      "take the features that the cache OLD has, of unchanged exams, and compute only the views "
      "and "
      "thumbnails that it lacks; --out is a new cache, and OLD stays as it is");
}

void ViewOptions::apply(ExtractOptions& options) const {
  options.reuse = reuse;
  augment::Augmentation& augmentation = options.augmentation;
  if (views == kNotGiven || views == 0) {
    if (!augment.empty() || seed != kNotGiven)
      throw ConfigError(concat(augment.empty() ? "--augment-seed" : "--augment",
                               " needs --views K, the number of augmented views, e.g. --views 4"));
    return;
  }
  if (views < 0 || views > kMostViews)
    throw ConfigError(concat("--views ", views, ": expected 0 to ", kMostViews));
  if (seed != kNotGiven && seed < 0)
    throw ConfigError(concat("--augment-seed ", seed, ": expected a whole number from 0"));
  augmentation.views = static_cast<std::size_t>(views);
  augmentation.seed = seed == kNotGiven ? 0 : static_cast<std::uint64_t>(seed);
  augment::parse_list(augment.empty() ? augment::kDefaultList : augment, augmentation);
}

}  // namespace coldframe::extract
