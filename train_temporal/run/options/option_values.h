// Options with a value, as all groups of them are spelt.
#pragma once

#include <boost/program_options.hpp>
#include <string>
#include <type_traits>

#include "common/text/text.h"

namespace coldframe::temporal {

template <typename T>
auto number(T& value) {  // 0.3, where Boost would show 0.29999999999999999
  const std::string shown =
      std::is_floating_point_v<T> ? exact(static_cast<double>(value)) : concat(value);
  return boost::program_options::value(&value)->value_name("N")->default_value(value, shown);
}

inline auto text(std::string& value, const char* name) {
  return boost::program_options::value(&value)->value_name(name);
}

}  // namespace coldframe::temporal
