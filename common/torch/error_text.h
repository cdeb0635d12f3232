// What LibTorch's exceptions say, without the stack that they add.
#pragma once

#include <c10/util/Exception.h>

#include <string>

namespace coldframe {

inline std::string first_line(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch_error ? torch_error->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace coldframe
