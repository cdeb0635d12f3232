#include "common/files/scratch_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe {

namespace fs = std::filesystem;

ScratchFolder::ScratchFolder(fs::path parent) {
  if (parent.empty()) parent = fs::temp_directory_path();
  std::string name = (parent / "coldframe-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    throw SystemError(concat("cannot make a folder in '", parent.string(), "': ",
                             std::strerror(errno), "; check that it exists and may be written to"));
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace coldframe
