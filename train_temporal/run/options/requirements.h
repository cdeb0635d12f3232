// `coldframe train --require`: what a run may take, asked before it begins.
#pragma once

#include <cstdint>
#include <string>

namespace coldframe::temporal {

struct Requirements {
  std::uint64_t memory = 0;                   // bytes of tensors on the device; 0: not asked
  double epoch_seconds = 0, run_seconds = 0;  // likewise

  bool asked() const { return memory > 0 || times(); }
  bool times() const { return epoch_seconds > 0 || run_seconds > 0; }
};

// "memory=6GiB,epoch=5s,run=2h", each at most once; times in ms, s, min or h. ConfigError.
Requirements parse_requirements(const std::string& text);

}  // namespace coldframe::temporal
