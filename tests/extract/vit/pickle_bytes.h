// Small hand-made pickles and checkpoints, so that the tests of hostile files need no Python.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace coldframe::vit::test {

struct ZipItem {
  std::string name, content;
};

std::string little(std::uint64_t value, int bytes);
std::string zip(const std::vector<ZipItem>& items);

std::string pickled_text(std::string_view text);
// {'<name>': tensor} with a view of storage '0' of `count` floats; numbers go in as they are, so
// that a test can lie about them.
struct PickledView {
  std::string name = "weight";
  std::int64_t count = 6, offset = 0;
  std::vector<std::int64_t> sizes{2, 3}, strides{3, 1};
  std::string storage_type = "FloatStorage";
};
std::string pickled_state_dict(const PickledView& view);

// Both formats of a checkpoint with one tensor [2, 3] of 0, 1, … 5.
std::string pth_zip(const PickledView& view = {});
std::string pth_legacy(const PickledView& view = {});

void write_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace coldframe::vit::test
