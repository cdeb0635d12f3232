// Clips: MP4, AVI, Matroska, MPEG, Ogg, FLV, WMV, GIF.
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace coldframe;
  const auto path = fuzz::write("clip", {data, size});
  return fuzz::read_all(path, "video", static_cast<unsigned>(size));
}
