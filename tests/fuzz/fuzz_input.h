// The fuzzers of the frame readers share this: bytes become files of a folder in memory, which the
// readers open as the programs do. coldframe::Error is a good answer; anything else ends the
// fuzzer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "extract/decode/source.h"

namespace coldframe::fuzz {

using Bytes = std::span<const std::uint8_t>;

// A folder of this process alone, in /dev/shm; removed when the process ends well.
const std::filesystem::path& folder();

// Writes folder() / name, over what it held before, and returns its path.
std::filesystem::path write(std::string_view name, Bytes bytes);

// Ends the fuzzer when the input that it is made for took more than 10 s of the processor;
// libFuzzer's own limit is one of the clock, which a busy machine exceeds without fault.
class TimeLimit {
 public:
  TimeLimit();
  ~TimeLimit();

 private:
  double start_s_;
};

// Lists the exams of `input`, opens each, and decodes up to 32 frames of it, for the values of
// ReaderOptions that `variant` numbers. Returns what libFuzzer's callback shall: −1, which keeps
// the bytes out of the corpus, when no reader of the kind `kind` takes `input`; else 0.
int read_all(const std::filesystem::path& input, std::string_view kind, unsigned variant);

}  // namespace coldframe::fuzz
