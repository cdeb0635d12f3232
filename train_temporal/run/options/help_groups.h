// The order in which --help shows many options.
#pragma once

#include <boost/program_options.hpp>
#include <string>
#include <vector>

namespace coldframe::temporal {

struct OptionGroup {
  std::string caption;
  boost::program_options::options_description options;
};

// All options of the groups: those that `first` names lead, in its order, as "Most used options".
boost::program_options::options_description with_most_used_first(
    const std::vector<std::string>& first, const std::vector<OptionGroup>& groups);

}  // namespace coldframe::temporal
