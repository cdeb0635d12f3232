// `coldframe plan`: what every way of training would take, before it runs.
#pragma once

#include <string>
#include <vector>

namespace coldframe::plan {

int run_plan(const std::vector<std::string>& arguments);

}  // namespace coldframe::plan
