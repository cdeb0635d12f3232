// A folder of a test's own, removed with everything in it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

#include "common/files/publish/scratch_folder.h"

namespace coldframe::testing {

class TemporaryFolder : public ScratchFolder {
 public:
  using ScratchFolder::ScratchFolder;

  std::filesystem::path operator/(std::string_view name) const { return path() / name; }

  std::filesystem::path write(std::string_view name, std::string_view content) const {
    std::ofstream(path() / name, std::ios::binary) << content;
    return path() / name;
  }

  std::string read(std::string_view name) const {
    std::ifstream in(path() / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path())) {
      found.insert(entry.path().filename());
    }
    return found;
  }
};

// The message with which `body` throws an Expected; a failure of the test if it throws none.
template <typename Expected, typename Body>
std::string message_of(const Body& body) {
  try {
    body();
  } catch (const Expected& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "threw something else: " << error.what();
    return "";
  }
  ADD_FAILURE() << "threw nothing";
  return "";
}

}  // namespace coldframe::testing
