// Words of LibTorch's exceptions, without the stack that they carry behind it.
#pragma once

#include <c10/util/Exception.h>

#include <string>
#include <string_view>

namespace coldframe {

inline std::string error_text(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return torch_error ? torch_error->what_without_backtrace() : error.what();
}

inline std::string first_line(const std::exception& error) {
  const std::string text = error_text(error);
  return text.substr(0, text.find('\n'));
}

// True for a lack of memory by any name. Libraries that find none for themselves say so in words
// only: cuBLAS for its handle, cuDNN for its plans, the driver for code that it loads.
inline bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error)) return true;
  if (!dynamic_cast<const c10::Error*>(&error)) return false;
  const std::string text = error_text(error);
  for (const std::string_view sign :
       {"out of memory", "ALLOC_FAILED", "CUBLAS_STATUS_NOT_INITIALIZED"})
    if (text.find(sign) != text.npos) return true;
  return false;
}

}  // namespace coldframe
