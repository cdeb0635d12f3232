#include "train_temporal/run/options/help_groups.h"

#include <algorithm>

namespace coldframe::temporal {

namespace po = boost::program_options;

po::options_description with_most_used_first(const std::vector<std::string>& first,
                                             const std::vector<OptionGroup>& groups) {
  po::options_description all, used("Most used options");
  for (const std::string& name : first) {
    for (const OptionGroup& group : groups)
      for (const auto& option : group.options.options())
        if (option->long_name() == name) used.add(option);
  }
  all.add(used);
  for (const OptionGroup& group : groups) {
    po::options_description rest(group.caption);
    for (const auto& option : group.options.options())
      if (std::ranges::find(first, option->long_name()) == first.end()) rest.add(option);
    all.add(rest);
  }
  return all;
}

}  // namespace coldframe::temporal
