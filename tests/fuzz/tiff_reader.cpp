// TIFF images and stacks.
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace coldframe;
  const auto path = fuzz::write("file.tif", {data, size});
  const auto variant = static_cast<unsigned>(size);
  if (fuzz::read_all(path, "stack", variant) == 0) return 0;
  return fuzz::read_all(path, "image", variant);
}
