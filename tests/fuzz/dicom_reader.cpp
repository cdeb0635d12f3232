// DICOM files, listed as the only file of a folder, so that their series are made out, too.
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace coldframe;
  fuzz::write("file.dcm", {data, size});
  return fuzz::read_all(fuzz::folder(), "dicom", static_cast<unsigned>(size));
}
