// `coldframe bundle VERB`: a finished run as one thing to hand over.
#pragma once

#include <string>
#include <vector>

namespace coldframe::bundle {

int run_bundle(const std::vector<std::string>& arguments);

}  // namespace coldframe::bundle
