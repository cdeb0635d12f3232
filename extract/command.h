// `coldframe extract`: frames → frozen backbone → cache.
#pragma once

#include <string>
#include <vector>

namespace coldframe::extract {

// Returns the exit code; throws the errors of common/cli/error.h. The caller ends with
// end_loading_cuda() when the error has been told.
int run_extract(const std::vector<std::string>& arguments);

}  // namespace coldframe::extract
