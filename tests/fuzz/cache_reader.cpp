// Caches whose checksum matches: the bytes become a file with the end of file in its superblock and
// the trailer that belong to them, which is opened, read and verified as the programs do it.
#include "cache/store/reader.h"
#include "cache/tool/verify.h"
#include "common/cli/error.h"
#include "tests/cache/malformed.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

namespace cache = coldframe::cache;

bool reads(const std::filesystem::path& path) {
  try {
    const cache::CacheReader reader(path);
    for (const std::string& view : reader.views())
      for (std::size_t exam = 0; exam < reader.exams().size(); ++exam) reader.features(exam, view);
    for (std::size_t exam = 0; exam < reader.exams().size(); ++exam)
      if (reader.thumbnails(exam).size() > reader.exams()[exam].frames()) __builtin_trap();
    return true;
  } catch (const coldframe::CacheError&) {
    return false;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const cache::FileBytes file = cache::sealed({bytes, bytes + size});
  const auto path = coldframe::fuzz::write(
      "x.h5", {reinterpret_cast<const std::uint8_t*>(file.data()), file.size()});
  const bool readable = reads(path);
  const bool clean = cache::verify(cache::locate(path)).findings.empty();
  if (clean && !readable) __builtin_trap();
  return 0;
}
