// Files that lie in the place of weights when a download went wrong are known by their beginning.
#pragma once

#include <string>

#include "common/files/bytes/byte_source.h"

namespace coldframe::vit {

// "a Git LFS pointer, …; fetch the file itself with 'git lfs pull'", or the like for a web page;
// empty for anything else.
std::string stand_in(const ByteSource& file);

}  // namespace coldframe::vit
