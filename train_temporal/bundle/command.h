// `coldframe bundle VERB`: packages a finished run for distribution.
#pragma once

#include <string>
#include <vector>

namespace coldframe::bundle {

int run_bundle(const std::vector<std::string>& arguments);

}  // namespace coldframe::bundle
