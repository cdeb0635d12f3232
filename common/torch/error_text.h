// LibTorch's exceptions carry a stack behind what they say; these leave it out.
#pragma once

#include <c10/util/Exception.h>

#include <string>

namespace coldframe {

inline std::string error_text(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return torch_error ? torch_error->what_without_backtrace() : error.what();
}

inline std::string first_line(const std::exception& error) {
  const std::string text = error_text(error);
  return text.substr(0, text.find('\n'));
}

}  // namespace coldframe
