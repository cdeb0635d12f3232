// Options with a value, as all groups of them are spelt.
#pragma once

#include <boost/program_options.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::temporal {

template <typename T>
auto number(T& value) {  // 0.3, where Boost would show 0.29999999999999999
  const std::string shown =
      std::is_floating_point_v<T> ? exact(static_cast<double>(value)) : concat(value);
  return boost::program_options::value(&value)->value_name("N")->default_value(value, shown);
}

inline auto number(std::optional<double>& value) {
  return boost::program_options::value<double>()->value_name("N")->notifier(
      [&value](double given) { value = given; });
}

// Names of columns with commas between them; ConfigError where one is empty.
inline auto names(const std::string& option, std::vector<std::string>& value) {
  return boost::program_options::value<std::string>()->value_name("A,B")->notifier(
      [option, &value](const std::string& given) {
        for (const std::string& name : split(given, ',')) {
          value.push_back(trim(name));
          if (value.back().empty())
            throw ConfigError("--" + option +
                              ": expected names of columns with commas between them");
        }
      });
}

// Ascending numbers above 0 with commas between them.
inline auto numbers(const std::string& option, std::vector<double>& value) {
  return boost::program_options::value<std::string>()->value_name("A,B")->notifier(
      [option, &value](const std::string& given) {
        for (const std::string& word : split(given, ',')) {
          const double before = value.empty() ? 0 : value.back();
          value.push_back(0);
          if (!parse_double(trim(word), value.back()) || !(value.back() > before) ||
              !(value.back() < 1e300))
            throw ConfigError("--" + option +
                              ": expected ascending numbers above 0 with commas between them");
        }
      });
}

inline auto text(std::string& value, const char* name) {
  return boost::program_options::value(&value)->value_name(name);
}

}  // namespace coldframe::temporal
